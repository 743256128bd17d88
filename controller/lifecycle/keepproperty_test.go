package lifecycle_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/invariant"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// writers drives an instance whose storage server is replaced, in a cloud that shows it or does not.
type writers struct {
	*lifecycletest.World
	cloud *lifecycletest.Cloud
	// nova are the storage servers that there are, attached those that have the volume.
	nova, attached []string
	// mayWrite are the storage servers that were told of the volume while it was kept, and that
	// nobody has said to be off; gone those that the cloud has shown to be.
	mayWrite, gone map[string]bool
	passed         int // fences that were passed
}

var storageServers = []string{lifecycletest.UUID(1, 1), lifecycletest.UUID(1, 2), lifecycletest.UUID(1, 3)}

// Whatever happens in whatever order, no storage server is told of the volume while another one
// may write to it whose PersistentVolumes were kept: it was told before, and neither has the cloud
// shown that it is gone, nor has anybody said that it is off, nor have they left the cluster.
func TestNoOrderOfEventsLetsTwoServersWrite(t *testing.T) {
	passed := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		w := &writers{mayWrite: map[string]bool{}, gone: map[string]bool{}, nova: slices.Clone(storageServers), attached: storageServers[:1]}
		w.World, w.cloud = lifecycletest.Keeping(drawn{rt, dir})
		w.show()
		w.check(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.putAny, "start": w.startAny, "start again": w.startAny, "end": w.endAny, "end again": w.endAny, "cancel": w.cancelAny, "converge": w.convergeAny, "withdrawn": w.absent,
			"the cloud changes": w.cloudChanges, "the cloud changes again": w.cloudChanges, "look": w.look, "look again": w.look, "replace": w.replace,
			"wait": func(*rapid.T) { w.Wait(20 * time.Minute) }, "restart": w.restart, "": w.check,
		})
		passed += w.passed
	})
	if passed == 0 && !testing.Short() {
		t.Error("no server was told after another: let the events replace them")
	}
	t.Logf("%d storage servers were told of the volume after another one", passed)
}

// taken lets an event be refused.
func (w *writers) taken(err error) bool {
	var refused *api.Problem
	if err != nil && (!errors.As(err, &refused) || refused.Status >= 500 && refused.Type != api.ProblemCloudError) {
		w.Fatalf("%v", err)
	}
	return err == nil
}

// drawTopology has one of the storage servers, nil for what is known.
func (w *writers) drawTopology(t *rapid.T) *api.Topology {
	if i := rapid.IntRange(0, 3).Draw(t, "storage server"); i < len(storageServers) {
		top := lifecycletest.HealedTopology(storageServers[i])
		if rapid.IntRange(0, 5).Draw(t, "not attached yet") == 0 {
			top.Servers[0].VolumeIds = nil
			top.Servers[1].VolumeIds = []string{lifecycletest.Volume}
		}
		return top
	}
	return nil
}

func (w *writers) putAny(t *rapid.T) {
	spec := api.InstanceSpec{Topology: w.drawTopology(t), AdditionalParams: lifecycletest.KeepingParameters()}
	if rapid.IntRange(0, 3).Draw(t, "withdraw") == 0 {
		spec.AdditionalParams = json.RawMessage(strings.Replace(string(spec.AdditionalParams), `"keep"`, `"withdraw"`, 1))
	}
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, spec)
	w.taken(err)
}

func (w *writers) post(t *rapid.T, r api.OperationRequest) {
	if r.Operation == api.Heal {
		r.PersistentVolumes = rapid.SampledFrom([]api.PersistentVolumesAtHeal{"", "", "", api.KeepPersistentVolumes, api.WithdrawPersistentVolumes}).Draw(t, "word")
		r.OldServerIsOff = rapid.IntRange(0, 9).Draw(t, "off") == 0
	}
	op, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	if !w.taken(err) {
		return
	}
	entire := op.Operation == api.Heal && len(r.VnfcInstanceIds) == 0
	if op.Phase == api.PhaseEnd && (op.OldServerIsOffBy != "" || entire) {
		clear(w.mayWrite)
	}
}

func (w *writers) startAny(t *rapid.T) { w.post(t, w.heal(t, api.PhaseStart, nil)) }

func (w *writers) endAny(t *rapid.T) {
	r := w.heal(t, api.PhaseEnd, w.drawTopology(t))
	if rapid.IntRange(0, 5).Draw(t, "another operation") == 0 {
		r = lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, r.Topology)
	}
	w.post(t, r)
}

// heal is one of a storage server or, seldom, of the entire VNF.
func (w *writers) heal(t *rapid.T, phase api.OperationPhase, top *api.Topology) api.OperationRequest {
	if rapid.IntRange(0, 9).Draw(t, "entire") == 0 {
		return lifecycletest.Heal(phase, top)
	}
	healed := rapid.SampledFrom(storageServers).Draw(t, "healed")
	for _, s := range w.Instance().Topology.Servers {
		if s.Name == "storage" && rapid.IntRange(0, 5).Draw(t, "the one in force") > 0 {
			healed = s.ID
		}
	}
	return lifecycletest.Heal(phase, top, healed)
}

func (w *writers) cancelAny(t *rapid.T) {
	ops := w.Operations()
	_, err := w.Cancel(ops[0])
	w.taken(err)
}

func (w *writers) convergeAny(t *rapid.T) {
	for _, id := range w.Instance().Nodes {
		if rapid.IntRange(0, 3).Draw(t, "reports") > 0 && w.taken(w.mayEnroll(id)) {
			w.Report(id, w.Status(id))
		}
	}
}

func (w *writers) mayEnroll(id string) error {
	if w.Node(id).State == api.NodeExpected {
		return w.Enroll(id)
	}
	return nil
}

// absent is the master that has withdrawn the PersistentVolumes, if it is asked to.
func (w *writers) absent(t *rapid.T) {
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.State != api.PersistentVolumesAbsent {
		t.Skip("nothing is withdrawn")
	}
	w.ReportAbsent()
}

func (w *writers) cloudChanges(t *rapid.T) {
	w.cloud.Away = nil
	switch i := rapid.IntRange(0, len(storageServers)-1).Draw(t, "server"); rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		w.cloud.Away = lifecycletest.Unreachable()
	case 1:
		if len(w.nova) == 1 {
			return
		}
		w.nova = slices.DeleteFunc(w.nova, func(id string) bool { return id == storageServers[i] })
	case 2:
		w.attached = []string{storageServers[i]}
	default:
		w.attached = []string{storageServers[0], storageServers[i]}
	}
	w.show()
}

func (w *writers) show() {
	w.cloud.Left = &stack.Remains{Servers: map[string]string{}, Volumes: map[string][]string{lifecycletest.Volume: w.attached}}
	for _, id := range w.nova {
		w.cloud.Left.Servers[id] = "ACTIVE"
	}
}

// look is the controller's next look at the cloud.
func (w *writers) look(t *rapid.T) {
	w.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "after"))
	for _, old := range storageServers {
		if w.cloud.Away == nil && !slices.Contains(w.nova, old) && len(w.attached) == 1 && slices.Contains(w.nova, w.attached[0]) {
			w.gone[old] = true
		}
	}
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
}

// replace is an END with a server that the cloud has, and a cloud that no longer has any other.
func (w *writers) replace(t *rapid.T) {
	by := rapid.SampledFrom(w.nova).Draw(t, "by")
	w.post(t, lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(by), by))
	w.check(t)
	if rapid.Bool().Draw(t, "the others are gone") {
		w.nova, w.attached, w.cloud.Away = []string{by}, []string{by}, nil
		w.show()
	}
	w.look(t)
}

func (w *writers) restart(*rapid.T) {
	w.Restart()
	w.Source, w.Lifecycle.Instances.Observer.Source = w.cloud, w.cloud
}

// check wants that who is told of the volume is alone, and notes who is told while it is kept.
func (w *writers) check(t *rapid.T) {
	broken, err := invariant.Check(w.Store, nil)
	w.Must(err)
	if len(broken) > 0 {
		t.Fatalf("%v", broken)
	}
	var d *desired.State
	w.Must(w.Lifecycle.Reconciler.Runner.View(lifecycletest.InstanceID, func(t *tx.Tx) (err error) { d, err = desired.InForce(t); return err }))
	if d.WithdrawPersistentVolumes {
		clear(w.mayWrite) // their clients leave before the server does
	}
	told := ""
	nodes := w.Instance().Nodes
	for _, id := range w.StorageDocuments() {
		if slices.Contains(nodes, id) {
			told = id
		}
	}
	if told == "" {
		return
	}
	for old := range w.mayWrite {
		if old == told {
			continue
		}
		if !w.gone[old] {
			t.Fatalf("the document of %s names the volume, and %s may write to it", told, old)
		}
		w.passed++
		delete(w.mayWrite, old)
	}
	delete(w.gone, told)
	if d.Params.Cluster.StorageServer.KeepVolumes && !d.WithdrawPersistentVolumes {
		w.mayWrite[told] = true
	}
}
