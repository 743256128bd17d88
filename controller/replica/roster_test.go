package replica_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/nodehitch/nodehitch/controller/replica"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// roster asks the followers at these sites.
func roster(t *testing.T, live func() ([]wire.Replica, error)) (r *replica.Roster, changes *atomic.Int64) {
	t.Helper()
	changes = new(atomic.Int64)
	r = &replica.Roster{Client: replica.NewClient(trust(t, 1)), Live: live, Changed: func() { changes.Add(1) }, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done; r.Client.Close() })
	return r, changes
}

func TestTheLeaderAsksTheFollowers(t *testing.T) {
	follower, fresh := newSite(t, 1<<20), newSite(t, 1<<20)
	var lag atomic.Pointer[replica.Status]
	var asked atomic.Int64
	following := 0.5
	lag.Store(&replica.Status{LagSeconds: &following})
	follower.Tell(func() replica.Status {
		asked.Add(1)
		return *lag.Load()
	})
	live := []wire.Replica{{ID: "a", State: wire.ReplicaLeader, Term: 7}, {ID: "b", State: wire.ReplicaFollower, URL: follower.url},
		{ID: "c", State: wire.ReplicaFollower, URL: fresh.url}, {ID: "d", State: wire.ReplicaStandby}}
	r, changes := roster(t, func() ([]wire.Replica, error) { return append([]wire.Replica{}, live...), nil })
	shown := func(i int) wire.Replica {
		t.Helper()
		list, err := r.List(t.Context())
		must(t, err)
		if len(list) != len(live) {
			t.Fatalf("%d replicas", len(list))
		}
		return list[i]
	}
	eventually(t, "the follower is asked", func() bool { return shown(1).LagSeconds != nil })
	if got := shown(1); *got.LagSeconds != following || got.Message != "" {
		t.Errorf("%+v", got)
	}
	if got := shown(2); got.LagSeconds != nil || got.Message != "it does not follow the leader yet" {
		t.Errorf("a follower that has just begun: %+v", got)
	}
	for _, i := range []int{0, 3} {
		if got := shown(i); got != live[i] {
			t.Errorf("one that holds nothing of the leader's: %+v", got)
		}
	}

	// The lag alone is no change; why a follower does not follow is one.
	eventually(t, "the first list is told of", func() bool { return changes.Load() == 1 })
	more := 0.7
	lag.Store(&replica.Status{LagSeconds: &more})
	eventually(t, "it has another lag", func() bool { return *shown(1).LagSeconds == more })
	if n := changes.Load(); n != 1 {
		t.Errorf("the list was told of %d times, want once", n)
	}
	lag.Store(&replica.Status{LagSeconds: &more, Problem: "etcd is silent"})
	eventually(t, "why it does not follow is told of", func() bool { return shown(1).Message == "etcd is silent" && changes.Load() == 2 })

	follower.stop(t)
	eventually(t, "it is silent", func() bool { return shown(1).Message == "it does not answer the leader" && changes.Load() == 3 })
	if got := shown(1); got.LagSeconds != nil {
		t.Errorf("it is silent, and its lag is %v", *got.LagSeconds)
	}
}

// While it is not known who is alive, nothing is shown.
func TestNobodyKnowsWhoIsAlive(t *testing.T) {
	silent := errors.New("etcd is silent")
	r, changes := roster(t, func() ([]wire.Replica, error) { return nil, silent })
	if _, err := r.List(t.Context()); !errors.Is(err, silent) {
		t.Errorf("error %v", err)
	}
	if changes.Load() != 0 {
		t.Error("a list was told of")
	}
}

// A replica without the seal key is not told how far a follower follows.
func TestAStrangerIsNotToldTheStatus(t *testing.T) {
	follower := newSite(t, 1<<20)
	asked := new(atomic.Int64)
	follower.Tell(func() replica.Status { asked.Add(1); return replica.Status{} })
	r := &replica.Roster{Client: replica.NewClient(trust(t, 2)), Changed: func() {}, Log: slog.New(slog.DiscardHandler),
		Live: func() ([]wire.Replica, error) {
			return []wire.Replica{{ID: "b", State: wire.ReplicaFollower, URL: follower.url}}, nil
		}}
	ctx, cancel := context.WithCancel(t.Context())
	r.Changed = cancel // after the first question
	r.Run(ctx)
	list, err := r.List(t.Context())
	must(t, err)
	if list[0].Message != "it does not answer the leader" || asked.Load() != 0 {
		t.Errorf("%+v, asked %d times", list[0], asked.Load())
	}
	r.Client.Close()
}

// A leader that has no address for replicas, while another one has, asks none.
func TestALeaderWithoutAnAddressAsksNoFollower(t *testing.T) {
	r := &replica.Roster{Log: slog.New(slog.DiscardHandler), Live: func() ([]wire.Replica, error) {
		return []wire.Replica{{ID: "a", State: wire.ReplicaLeader}, {ID: "b", State: wire.ReplicaFollower, URL: "https://127.0.0.1:1"}}, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	r.Changed = cancel
	r.Run(ctx)
	if list, err := r.List(t.Context()); err != nil || len(list) != 2 || list[1].LagSeconds != nil {
		t.Errorf("%+v, %v", list, err)
	}
}
