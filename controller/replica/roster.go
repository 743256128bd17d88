package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

const (
	// pathStatus is where a replica says how far it follows the leader.
	pathStatus = "/internal/status"
	// statusBytes is more than such an answer has.
	statusBytes = 4 << 10
	// askEvery is how often the leader asks each follower, and a follower the leader.
	askEvery = time.Second
)

// Status is what a replica says of itself.
type Status struct {
	// LagSeconds is how long ago etcd confirmed that the replica has all that was committed; nil
	// if it never did.
	LagSeconds *float64 `json:"lagSeconds,omitempty"`
	// Problem is why the replica does not follow the leader, "" if it does.
	Problem string `json:"problem,omitempty"`
}

// Tell has the server say to the leader how far this replica follows it.
func (s *Server) Tell(status func() Status) { s.status.Store(&status) }

func (s *Server) answerStatus(w http.ResponseWriter, _ *http.Request) {
	now := Status{Problem: "it does not follow the leader yet"}
	if status := s.status.Load(); status != nil {
		now = (*status)()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(now) // the leader may have gone
}

// Roster is the replicas that are alive, as the leader knows them. The leader asks each follower how
// far it follows; etcd would have to take a write for each answer.
type Roster struct {
	// Client asks the followers; nil if this replica has no replica.url, and asks none.
	Client *Client
	// Live are the replicas that are alive, with what etcd knows of them, ordered by their ids.
	Live func() ([]wire.Replica, error)
	// Changed is called when the list has another content, LagSeconds aside.
	Changed func()
	Log     *slog.Logger

	mu   sync.Mutex
	told map[string]Status // by id
}

// silent is the status of a follower that does not answer: its text never changes.
var silent = Status{Problem: "it does not answer the leader"}

// Run asks until ctx ends.
func (r *Roster) Run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var before []wire.Replica
	for ctx.Err() == nil {
		r.ask(ctx)
		if list, err := r.List(ctx); err == nil {
			for i := range list {
				list[i] = list[i].Quiet()
			}
			if !reflect.DeepEqual(list, before) {
				before = list
				r.Changed()
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// ask asks all followers at the same time.
func (r *Roster) ask(ctx context.Context) {
	if r.Client == nil {
		return
	}
	live, err := r.Live()
	if err != nil {
		return // List says so
	}
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	told := map[string]Status{}
	var asked sync.WaitGroup
	var mu sync.Mutex
	for _, follower := range live {
		if follower.State != wire.ReplicaFollower {
			continue
		}
		asked.Go(func() {
			status, err := r.statusOf(ctx, follower.URL)
			if err != nil {
				r.Log.DebugContext(ctx, "a follower does not say how far it follows", "replica", follower.ID, "error", err)
				status = silent
			}
			mu.Lock()
			defer mu.Unlock()
			told[follower.ID] = status
		})
	}
	asked.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = told
}

func (r *Roster) statusOf(ctx context.Context, url string) (status Status, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+pathStatus, nil)
	if err != nil {
		return status, err
	}
	answer, err := r.Client.RoundTrip(request)
	if err != nil {
		return status, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return status, fmt.Errorf("%s answers %s; expected 200", url, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, statusBytes))
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return status, fmt.Errorf("%s answers something else than its status: %w", url, err)
	}
	return status, nil
}

// List is the replicas that are alive, with what the followers have said in the last second.
func (r *Roster) List(context.Context) ([]wire.Replica, error) {
	items, err := r.Live()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range items {
		if status, known := r.told[items[i].ID]; known && items[i].State == wire.ReplicaFollower {
			items[i].LagSeconds, items[i].Message = status.LagSeconds, status.Problem
		}
	}
	return items, nil
}
