package replica_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/nodehitch/nodehitch/controller/replica"
)

// A replica that hears nothing of the leader is to close, unless it knows that there is none.
func TestWhetherTheLeaderIsReached(t *testing.T) {
	site, unknown := newSite(t, 1), new(atomic.Bool)
	var leader atomic.Pointer[string]
	leader.Store(&site.url)
	asked := make(chan struct{})
	client := replica.NewClient(trust(t, 1))
	t.Cleanup(client.Close)
	tell := func() {
		select {
		case asked <- struct{}{}:
		case <-t.Context().Done():
		}
	}
	reach := &replica.Reach{Client: client, Vacant: func() bool {
		tell()
		return !unknown.Load() && *leader.Load() == ""
	}, Leader: func() string {
		tell()

		return *leader.Load()
	}}
	// next waits until all that began before is over.
	next := func(ended chan struct{}) {
		for range 2 {
			select {
			case <-asked:
			case <-ended:
				t.Fatal("it has ended")
			}
		}
	}
	until := func(wait func(context.Context)) chan struct{} {
		ended := make(chan struct{})
		go func() { defer close(ended); wait(t.Context()) }()
		return ended
	}
	ends := func(ended chan struct{}) {
		for range 5 {
			select {
			case <-asked:
			case <-ended:
				return
			}
		}
		t.Fatal("it goes on")
	}

	found := until(reach.Found)
	next(found) // it answers that it is not the leader
	site.Lead(http.NotFoundHandler(), func() {})
	ends(found)

	unknown.Store(true)
	lost := until(reach.Lost)
	next(lost) // it answers
	nobody := ""
	unknown.Store(false)
	leader.Store(&nobody)
	next(lost) // nobody could
	unknown.Store(true)
	ends(lost)

	leader.Store(&site.url)
	site.stop(t)
	lost = until(reach.Lost)
	next(lost)
	next(lost) // the first question may have gone to a connection that died while the process was frozen
	ends(lost)
}
