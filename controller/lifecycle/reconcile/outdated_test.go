package reconcile_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What an older controller accepted, and this one would not, stops the planning of
// that instance and nothing else: what nodes report is kept, operations have their
// deadline, and both the log and the instance say what is wrong.
func TestAnInstanceThatAnOlderControllerAcceptedGoesOn(t *testing.T) {
	for name, c := range lifecycletest.Outdated {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Instantiated(t)
			var log bytes.Buffer
			w.Lifecycle.Reconciler.Log = slog.New(slog.NewTextHandler(&log, nil))
			sick := w.Status(lifecycletest.StorageServer)
			sick.Conditions[0].Status, sick.Conditions[0].Reason = api.ConditionFalse, api.ReasonConverging
			w.Report(lifecycletest.StorageServer, sick)
			op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), lifecycletest.StorageServer))
			w.Outdate(c.Change)

			sick.Conditions[0].Reason = api.ReasonNoPermit
			w.Report(lifecycletest.StorageServer, sick)
			w.Report(lifecycletest.MasterServer, w.Status(lifecycletest.MasterServer))
			if got := w.Node(lifecycletest.StorageServer).Status.Condition(api.ConditionReady); got.Reason != api.ReasonNoPermit {
				t.Errorf("what the node reported is not there: %+v", got)
			}
			if _, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer); err != nil {
				t.Errorf("the node has lost its document: %v", err)
			}
			i, err := w.Lifecycle.Instances.GetInstance(w.Ctx, lifecycletest.InstanceID)
			w.Must(err)
			if !lifecycletest.HasFault(i.Warnings, "", "hitchctl apply") || !saysAny(i.Warnings, c.Pointer, c.Says) {
				t.Errorf("warnings %v, want what is wrong at %s and what to do", i.Warnings, c.Pointer)
			}
			w.Clock.Advance(time.Hour)
			w.Must(w.Lifecycle.Sweep(w.Ctx))
			if got := w.Operation(op.ID); op.State != api.Processing || got.State != api.Failed {
				t.Errorf("the operation was %s and is %s past its deadline", op.State, got.State)
			}
			if n := strings.Count(log.String(), "is not planned any more"); n != 1 {
				t.Errorf("the log says so %d times:\n%s", n, &log)
			}
			w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
			if i, err := w.Lifecycle.Instances.GetInstance(w.Ctx, lifecycletest.InstanceID); err != nil || lifecycletest.HasFault(i.Warnings, "", "hitchctl apply") {
				t.Errorf("it was PUT again, and %+v, %v", i.Warnings, err)
			}
		})
	}
}

// saysAny is saysOne for a place and all below it.
func saysAny(warnings []api.Fault, under, part string) bool {
	for _, f := range warnings {
		if strings.HasPrefix(f.Pointer, under) && strings.Contains(f.Message, part) {
			return true
		}
	}
	return false
}
