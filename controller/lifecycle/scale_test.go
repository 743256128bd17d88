package lifecycle_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// fleet is an instance of so many workers, enrolled and ready, beside the usual three.
func fleet(t lifecycletest.T, workers int) (w *lifecycletest.World, ids []string) {
	t.Helper()
	w = lifecycletest.New(t)
	s := lifecycletest.FullTopology()
	for i := range workers {
		s.Servers = append(s.Servers, lifecycletest.Server(lifecycletest.UUID(4, i), "worker"))
	}
	for _, server := range s.Servers {
		ids = append(ids, server.ID)
	}
	w.Put(lifecycletest.Spec(s))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(ids...)
	if got := w.Operations()[0]; got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v", got)
	}
	return w, ids
}

// Everything at the same time: reports, polls, lists, operations and sweeps.
func TestManyAtOnce(t *testing.T) {
	w, ids := fleet(t, 5)
	var all sync.WaitGroup
	for _, id := range ids {
		s := w.Status(id)
		all.Go(func() {
			for i := range 20 {
				s.Facts.KernelVersion = fmt.Sprint(i % 3)
				w.Lifecycle.Nodes.Seen(id)
				if err := w.Lifecycle.Nodes.ReportStatus(w.Ctx, id, s); err != nil {
					w.Errorf("report of %s: %v", id, err)
				}
				if _, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, id); err != nil {
					w.Errorf("poll of %s: %v", id, err)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			w.Clock.Advance(time.Second)
			if err := w.Lifecycle.Sweep(w.Ctx); err != nil {
				w.Errorf("sweep: %v", err)
			}
			if _, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, "", true); err != nil {
				w.Errorf("list: %v", err)
			}
		}
	})
	all.Go(func() {
		for range 10 {
			if _, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology())); err != nil {
				w.WantRefused(err, api.ProblemOperationInProgress)
			}
			if _, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseStart)); err != nil {
				w.WantRefused(err, api.ProblemOperationInProgress)
			}
		}
	})
	all.Wait()
}

func BenchmarkHeartbeat(b *testing.B) {
	w, ids := fleet(b, 200)
	s := w.Status(ids[0])
	for b.Loop() {
		w.Report(ids[0], s)
	}
}

// A transition plans the whole instance again and evaluates the operation in progress.
func BenchmarkTransitionAmong200Nodes(b *testing.B) {
	w, ids := fleet(b, 200)
	s := w.Status(ids[0])
	for i := 0; b.Loop(); i++ {
		s.Facts.KernelVersion = fmt.Sprint(i)
		w.Report(ids[0], s)
	}
}
