package replica

import (
	"context"
	"net/http"
	"time"
)

const (
	// pathLeader answers 204 at the leader. Another build asks for the same path.
	pathLeader = "/internal/writer"
	// askLimit is how long the leader may take to answer.
	askLimit = 3 * time.Second
)

// Reach says whether this replica reaches the leader. A replica that does not, while others may,
// must not listen: an answer ends an agent's attempt, and a refused connection sends it to the
// next replica.
type Reach struct {
	// Leader is that of ForwarderOptions.
	Leader func() string
	// Vacant says that there is no leader, as far as etcd confirms it.
	Vacant func() bool
	Client *Client
	// SilenceLimit is how long the leader may be silent.
	SilenceLimit time.Duration
}

// Lost waits until the leader has been silent for too long, although there is one, or there may
// be one that this replica does not know. It returns without that when ctx ends.
func (r *Reach) Lost(ctx context.Context) {
	fine, failures := time.Now(), 0
	r.each(ctx, func() (over bool) {
		if r.Vacant() || r.answers(ctx) {
			fine, failures = time.Now(), 0
			return false
		}
		failures++ // a process that was frozen finds its first question late, and its connection dead
		return failures > 1 && time.Since(fine) > r.SilenceLimit
	})
}

// Found waits until the leader answers, or ctx ends. While there is no leader, a replica that has
// stopped listening goes on waiting: it has nothing to answer.
func (r *Reach) Found(ctx context.Context) {
	r.each(ctx, func() bool { return r.answers(ctx) })
}

func (r *Reach) each(ctx context.Context, over func() bool) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for ctx.Err() == nil && !over() {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// answers says whether the replica that is known as the leader is reached, and is the leader.
func (r *Reach) answers(ctx context.Context) bool {
	url := r.Leader()
	if url == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+pathLeader, http.NoBody)
	if err != nil {
		return false
	}
	answer, err := r.Client.RoundTrip(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close() // it has none
	return answer.StatusCode == http.StatusNoContent
}
