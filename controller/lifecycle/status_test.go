package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestRunFailsWhatIsDueAndStops(t *testing.T) {
	storetest.OnlyBbolt(t, storetest.Bubble)
	// All of it in the bubble: the store's worker may still be at the last change before.
	synctest.Test(t, func(t *testing.T) {
		w := lifecycletest.New(t)
		w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
		w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
		w.Lifecycle.Operations.Runner.Now = time.Now
		r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
		r.DeadlineSeconds = 60
		op := w.Post(r)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- w.Lifecycle.Run(ctx) }()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := w.Operation(op.ID).State; got != api.Processing {
			t.Errorf("before its deadline the operation is %s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.Operation(op.ID).State; got != api.Failed {
			t.Errorf("after its deadline the operation is %s", got)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}
