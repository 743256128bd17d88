package replica_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/nodehitch/nodehitch/controller/replica"
)

// A replica that hears nothing of the writer is to close, unless it knows that there is none.
func TestWhetherTheWriterIsReached(t *testing.T) {
	site, unknown := newSite(t, 1), new(atomic.Bool)
	var writer atomic.Pointer[string]
	writer.Store(&site.url)
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
		return !unknown.Load() && *writer.Load() == ""
	}, Writer: func() string {
		tell()

		return *writer.Load()
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
	next(found) // it answers that it is not the writer
	site.Lead(http.NotFoundHandler(), func() {})
	ends(found)

	unknown.Store(true)
	lost := until(reach.Lost)
	next(lost) // it answers
	nobody := ""
	unknown.Store(false)
	writer.Store(&nobody)
	next(lost) // nobody could
	unknown.Store(true)
	ends(lost)

	writer.Store(&site.url)
	site.stop(t)
	lost = until(reach.Lost)
	next(lost)
	next(lost) // the first question may have gone to a connection that died while the process was frozen
	ends(lost)
}
