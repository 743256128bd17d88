package lcm_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// fleet is an instance of so many workers, enrolled and ready, beside the usual three.
func fleet(t tester, workers int) (w *world, ids []string) {
	t.Helper()
	w = newWorld(t)
	s := full()
	for i := range workers {
		s.Servers = append(s.Servers, server(uuid(4, i), "worker"))
	}
	for _, server := range s.Servers {
		ids = append(ids, server.ID)
	}
	w.put(spec(s))
	w.upload(script, "#!/bin/sh\n")
	w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(ids...)
	if got := w.operations()[0]; got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v", got)
	}
	return w, ids
}

// Everything at the same time: reports, polls, lists, operations and sweeps.
func TestManyAtOnce(t *testing.T) {
	w, ids := fleet(t, 5)
	var all sync.WaitGroup
	for _, id := range ids {
		s := w.status(id)
		all.Go(func() {
			for i := range 20 {
				s.Facts.KernelVersion = fmt.Sprint(i % 3)
				w.LCM.Nodes.Seen(id)
				if err := w.LCM.Nodes.ReportStatus(w.ctx, id, s); err != nil {
					w.Errorf("report of %s: %v", id, err)
				}
				if _, _, err := w.LCM.Nodes.NodeConfig(w.ctx, id); err != nil {
					w.Errorf("poll of %s: %v", id, err)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			w.Clock.Advance(time.Second)
			if err := w.LCM.Sweep(w.ctx); err != nil {
				w.Errorf("sweep: %v", err)
			}
			if _, err := w.LCM.Nodes.ListNodes(w.ctx, "", true); err != nil {
				w.Errorf("list: %v", err)
			}
		}
	})
	all.Go(func() {
		for range 10 {
			if _, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, full())); err != nil {
				w.refused(err, api.ProblemOperationInProgress)
			}
			if _, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseStart)); err != nil {
				w.refused(err, api.ProblemOperationInProgress)
			}
		}
	})
	all.Wait()
}

func BenchmarkHeartbeat(b *testing.B) {
	w, ids := fleet(b, 200)
	s := w.status(ids[0])
	for b.Loop() {
		w.report(ids[0], s)
	}
}

// A transition plans the whole instance again and evaluates the operation in progress.
func BenchmarkTransitionAmong200Nodes(b *testing.B) {
	w, ids := fleet(b, 200)
	s := w.status(ids[0])
	for i := 0; b.Loop(); i++ {
		s.Facts.KernelVersion = fmt.Sprint(i)
		w.report(ids[0], s)
	}
}
