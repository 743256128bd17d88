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

// outdated is what an older controller accepted and this one would not, and what says so.
var outdated = map[string]struct {
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
}

// outdate changes what is in force, as an older controller may have left it.
func (w *world) outdate(change func(*world, *store.Desired)) {
	w.Helper()
	w.must(w.Store.Update(func(tx *store.Tx) error {
		i, _, err := tx.Instances().Get(instanceID)
		w.must(err)
		key := store.DesiredKey(instanceID, i.DesiredVersion)
		d, _, err := tx.Desired().Get(key)
		w.must(err)
		change(w, &d)
		return tx.Desired().Put(key, d)
	}))
}

// What an older controller accepted, and this one would not, stops the planning of
// that instance and nothing else: what nodes report is kept, operations have their
// deadline, and both the log and the instance say what is wrong.
func TestAnInstanceThatAnOlderControllerAcceptedGoesOn(t *testing.T) {
	for name, c := range outdated {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			var log bytes.Buffer
			w.LCM.Reconciler.Log = slog.New(slog.NewTextHandler(&log, nil))
			sick := w.status(storageServer)
			sick.Conditions[0].Status, sick.Conditions[0].Reason = api.ConditionFalse, api.ReasonConverging
			w.report(storageServer, sick)
			op := w.post(heal(api.PhaseEnd, full(), storageServer))
			w.outdate(c.change)

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

// An instance can be ended and deleted whatever this controller thinks of its parameters.
func TestWhatAnOlderControllerAcceptedCanBeTerminated(t *testing.T) {
	for name, c := range outdated {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			w.outdate(c.change)
			servers, documents := []string{storageServer, masterServer, workerServer}, map[string]string{}
			for _, id := range servers {
				documents[id] = w.node(id).Digest
			}
			w.wantState(w.post(request(api.Terminate, api.PhaseStart)), api.Completed)
			for _, id := range servers {
				if n := w.node(id); n.State != api.NodeEnrolled || n.Digest != documents[id] {
					t.Errorf("after the START, %s is %s with the document %s, want %s", n.Name, n.State, n.Digest, documents[id])
				}
			}
			w.wantState(w.post(request(api.Terminate, api.PhaseEnd)), api.Completed)
			for _, id := range servers {
				if n := w.node(id); n.State != api.NodeRevoked {
					t.Errorf("after the END, %s is %s", n.Name, n.State)
				}
			}
			if i := w.instance(); i.State != api.NotInstantiated || i.Topology != nil {
				t.Errorf("the instance is %s with the topology %+v", i.State, i.Topology)
			}
			w.restart()
			w.must(w.LCM.Instances.DeleteInstance(w.ctx, instanceID))
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
