package lcm_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What an older controller accepted, and this one would not, stops the planning of
// that instance and nothing else: what nodes report is kept, operations have their
// deadline, and both the log and the instance say what is wrong.
func TestAnInstanceThatAnOlderControllerAcceptedGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*world, *store.Desired)
		pointer string
		says    string
	}{
		"parameters": {func(w *world, d *store.Desired) {
			var err error
			d.AdditionalParams, err = w.Store.Seal([]byte(`{"k8s_cluster_installation_param": {}}`))
			w.must(err)
		}, "/additionalParams/k8s_cluster_installation_param", "script_path"},
		"topology": {func(_ *world, d *store.Desired) {
			d.Topology.Servers = append(d.Topology.Servers, server(uuid(1, 9), "storage"))
		}, "/topology/servers", "storage"},
	} {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			var log bytes.Buffer
			w.LCM.Reconciler.Log = slog.New(slog.NewTextHandler(&log, nil))
			sick := w.status(storageServer)
			sick.Conditions[0].Status, sick.Conditions[0].Reason = api.ConditionFalse, api.ReasonConverging
			w.report(storageServer, sick)
			op := w.post(heal(api.PhaseEnd, full(), storageServer))
			w.must(w.Store.Update(func(tx *store.Tx) error {
				i, _, err := tx.Instances().Get(instanceID)
				w.must(err)
				key := store.DesiredKey(instanceID, i.DesiredVersion)
				d, _, err := tx.Desired().Get(key)
				w.must(err)
				c.change(w, &d)
				return tx.Desired().Put(key, d)
			}))

			sick.Conditions[0].Reason = api.ReasonNoPermit
			w.report(storageServer, sick)
			w.report(masterServer, w.status(masterServer))
			if got := w.node(storageServer).Status.Condition(api.ConditionReady); got.Reason != api.ReasonNoPermit {
				t.Errorf("what the node reported is not there: %+v", got)
			}
			if _, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer); err != nil {
				t.Errorf("the node has lost its document: %v", err)
			}
			i, err := w.LCM.Instances.GetInstance(w.ctx, instanceID)
			w.must(err)
			if !saysOne(i.Warnings, "", "hitchctl apply") || !saysAny(i.Warnings, c.pointer, c.says) {
				t.Errorf("warnings %v, want what is wrong at %s and what to do", i.Warnings, c.pointer)
			}
			w.Clock.Advance(time.Hour)
			w.must(w.LCM.Sweep(w.ctx))
			if got := w.operation(op.ID); op.State != api.Processing || got.State != api.Failed {
				t.Errorf("the operation was %s and is %s past its deadline", op.State, got.State)
			}
			if n := strings.Count(log.String(), "is not planned any more"); n != 1 {
				t.Errorf("the log says so %d times:\n%s", n, &log)
			}
			w.put(spec(full()))
			if i, err := w.LCM.Instances.GetInstance(w.ctx, instanceID); err != nil || saysOne(i.Warnings, "", "hitchctl apply") {
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
