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
	// mayWrite are the storage servers that were told of the volume while it was kept and may still
	// write. gone are those that the cloud has shown to be gone. off are those that an operator has
	// stated to be off, each until when; stated has the server of each idempotency key.
	mayWrite, gone map[string]bool
	off            map[string]time.Time
	stated         map[string]string
	// says has for each key whether its requests say so.
	says map[string]bool
	// kept is the volume that the PersistentVolumes are on, masters are those of their cluster.
	kept    string
	masters []string
	// unkept is the server in force that was told of a volume while nothing was kept, and the volume.
	unkept, unkeptVolume string
	// withdrawn: the master has said that they are absent, and nobody has taken that back.
	withdrawn bool
	passed    int // fences that were passed
	joined    int // statements that an END took which waited
}

var storageServers = []string{lifecycletest.UUID(1, 1), lifecycletest.UUID(1, 2), lifecycletest.UUID(1, 3)}

// otherVolume and otherMaster take the place of the ones that FullTopology has.
var otherVolume, otherMaster = lifecycletest.UUID(9, 2), lifecycletest.UUID(2, 2)

// Whatever happens in whatever order, no storage server is told of the volume while another one
// may write to it whose PersistentVolumes were kept: it was told before, and neither has the cloud
// shown that it is gone, nor has anybody said that this one is off, nor have they left the cluster
// before a heal, nor has it gone with all its masters. And none is told of another volume before
// they have left it, or it has gone.
func TestNoOrderOfEventsLetsTwoServersWrite(t *testing.T) {
	passed, joined := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		w := &writers{mayWrite: map[string]bool{}, gone: map[string]bool{}, off: map[string]time.Time{}, stated: map[string]string{}, says: map[string]bool{}, nova: slices.Clone(storageServers), attached: storageServers[:1]}
		w.World, w.cloud = lifecycletest.Keeping(drawn{rt, dir})
		w.show()
		w.check(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.putAny, "start": w.startAny, "start again": w.startAny, "end": w.endAny, "end again": w.endAny, "state": w.state, "cancel": w.cancelAny, "converge": w.convergeAny, "withdrawn": w.absent, "change": w.changeAny,
			"the cloud changes": w.cloudChanges, "the cloud changes again": w.cloudChanges, "look": w.look, "look again": w.look, "replace": w.replace, "replace again and again": w.replaceAgain, "empty": w.empty,
			"wait": func(*rapid.T) { w.Wait(20 * time.Minute) }, "restart": w.restart, "": w.check,
		})
		passed, joined = passed+w.passed, joined+w.joined
	})
	if (passed == 0 || joined == 0) && !testing.Short() {
		t.Error("no server was told after another, or no END that waited took a statement: let the events replace them")
	}
	t.Logf("%d storage servers were told of the volume after another one, %d statements were taken by an END that waited", passed, joined)
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
		if rapid.IntRange(0, 5).Draw(t, "another volume") == 0 {
			top.Volumes[0].ID, top.Servers[0].VolumeIds, top.Servers[1].VolumeIds = otherVolume, []string{otherVolume}, nil
		}
		if rapid.IntRange(0, 5).Draw(t, "another master") == 0 {
			top.Servers[1] = lifecycletest.Server(otherMaster, "master")
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
		r.OldServerIsOff = rapid.IntRange(0, 5).Draw(t, "off") == 0
		r.IdempotencyKey = rapid.SampledFrom([]string{"", "", string(r.Phase)}).Draw(t, "key")
	}
	w.send(t, r)
}

// send posts the request, and then nobody writes any more who this says does not.
func (w *writers) send(t *rapid.T, r api.OperationRequest) {
	if said, repeats := w.says[r.IdempotencyKey]; repeats && r.IdempotencyKey != "" {
		r.OldServerIsOff = said // it is the same request
	}
	w.says[r.IdempotencyKey] = r.OldServerIsOff
	withdrawn := false
	if ops := w.Operations(); w.withdrawn {
		withdrawn = ops[0].Operation == api.Heal
	}
	op, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	if !w.taken(err) || op.Operation != api.Heal {
		return
	}
	storage, masters := w.inForce()
	if op.Joined {
		if r.IdempotencyKey == "" { // that END has taken the statement, about the one that may write
			for id := range w.mayWrite {
				if id != storage {
					w.off[id] = op.Deadline
					w.joined++
					delete(w.mayWrite, id)
				}
			}
		}
		return
	}
	if r.OldServerIsOff {
		server, repeats := w.stated[r.IdempotencyKey]
		for id := range w.mayWrite {
			if !repeats || r.IdempotencyKey == "" {
				server = id
			}
		}
		if r.Phase == api.PhaseEnd && server == storage {
			server = ""
		}
		w.off[server], w.stated[r.IdempotencyKey] = op.Deadline, server
	}
	if r.Phase != api.PhaseEnd || op.State == api.Failed && op.Error.Type == api.ProblemVolumesStranded {
		return
	}
	for id, until := range w.off {
		if w.Clock.Now().Before(until) && id != storage {
			delete(w.mayWrite, id)
		}
	}
	entire := len(r.VnfcInstanceIds) == 0 && !slices.ContainsFunc(masters, func(id string) bool { return slices.Contains(w.masters, id) })
	if entire || withdrawn {
		clear(w.mayWrite)
		w.kept = ""
	}
}

// inForce are the storage server and the masters of the topology in force.
func (w *writers) inForce() (storage string, masters []string) {
	for _, s := range w.Instance().Topology.Servers {
		switch s.Name {
		case "storage":
			storage = s.ID
		case "master":
			masters = append(masters, s.ID)
		}
	}
	return storage, masters
}

// changeAny is a change of all addresses, which withdraws the PersistentVolumes.
func (w *writers) changeAny(t *rapid.T) {
	w.post(t, lifecycletest.Request(api.ChangeExtConn, rapid.SampledFrom([]api.OperationPhase{api.PhaseStart, api.PhaseStart, api.PhaseEnd}).Draw(t, "phase")))
}

func (w *writers) startAny(t *rapid.T) { w.post(t, w.heal(t, api.PhaseStart, nil)) }

func (w *writers) endAny(t *rapid.T) {
	r := w.heal(t, api.PhaseEnd, w.drawTopology(t))
	if rapid.IntRange(0, 5).Draw(t, "another operation") == 0 {
		r = lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, r.Topology)
	}
	w.post(t, r)
}

// state is an operator who states that the old server is off while an END waits for it, mostly of a heal.
func (w *writers) state(t *rapid.T) {
	storage, _ := w.inForce()
	if rapid.Bool().Draw(t, "after an END") {
		by := rapid.SampledFrom(storageServers).Draw(t, "by")
		w.send(t, lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(by), storage))
		w.check(t)
	}
	r := lifecycletest.Heal(api.PhaseEnd, nil, rapid.SampledFrom(storageServers).Draw(t, "named"))
	r.OldServerIsOff = true
	w.send(t, r)
}

// heal is one of a storage server or, seldom, of the entire VNF.
func (w *writers) heal(t *rapid.T, phase api.OperationPhase, top *api.Topology) api.OperationRequest {
	if rapid.IntRange(0, 4).Draw(t, "without names") == 0 {
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

// absent is the master that has withdrawn the PersistentVolumes, or refuses to, if it is asked to.
func (w *writers) absent(t *rapid.T) {
	for _, id := range w.Instance().Nodes {
		if s := w.Section(id); s != nil && s.State == api.PersistentVolumesAbsent && w.taken(w.mayEnroll(id)) {
			if rapid.IntRange(0, 2).Draw(t, "in use") == 0 {
				w.ReportVolumes(id, api.ConditionFalse, api.ReasonInUse, "pv1 is Bound")
				return
			}
			w.ReportVolumes(id, api.ConditionTrue, api.ReasonAbsent, "")
			w.withdrawn = true
			return
		}
	}
	t.Skip("nothing is withdrawn")
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
	storage, _ := w.inForce()
	w.cloud.Left = &stack.Remains{Servers: map[string]string{}, Volumes: map[string][]string{lifecycletest.Volume: w.attached, otherVolume: {storage}}}
	for _, id := range w.nova {
		w.cloud.Left.Servers[id] = "ACTIVE"
	}
}

// look is the controller's next look at the cloud.
func (w *writers) look(t *rapid.T) {
	w.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "after"))
	for _, old := range storageServers {
		shown := w.kept != lifecycletest.Volume || len(w.attached) == 1 && slices.Contains(w.nova, w.attached[0])
		if w.cloud.Away == nil && !slices.Contains(w.nova, old) && shown {
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

// replaceAgain is a heal that is given up and begun again, as Tacker retries it, with another server each time.
func (w *writers) replaceAgain(t *rapid.T) {
	keys := rapid.Bool().Draw(t, "with keys")
	for range 3 {
		by := rapid.SampledFrom(storageServers).Draw(t, "by")
		now, _ := w.inForce()
		r := lifecycletest.Heal(rapid.SampledFrom([]api.OperationPhase{api.PhaseStart, api.PhaseEnd}).Draw(t, "phase"), nil, now)
		if r.OldServerIsOff = rapid.Bool().Draw(t, "off"); r.Phase == api.PhaseEnd {
			r.Topology = lifecycletest.HealedTopology(by)
		}
		if keys {
			r.IdempotencyKey = string(r.Phase) + " again"
		}
		w.send(t, r)
		w.check(t)
		w.cancelAny(t)
		w.check(t)
		if rapid.Bool().Draw(t, "later") {
			w.Wait(31 * time.Minute)
		}
		w.check(t)
	}
}

// empty is a stack whose storage server and volume were replaced, and an operator who gives the volume back.
func (w *writers) empty(t *rapid.T) {
	by := rapid.SampledFrom(storageServers).Draw(t, "by")
	top := lifecycletest.HealedTopology(by)
	top.Volumes[0].ID, top.Servers[0].VolumeIds = otherVolume, []string{otherVolume}
	w.send(t, lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, top))
	w.check(t)
	w.nova, w.cloud.Away = []string{by}, nil
	w.show()
	w.look(t)
	w.check(t)
	w.cancelAny(t)
	w.check(t)
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, api.InstanceSpec{Topology: lifecycletest.HealedTopology(by), AdditionalParams: lifecycletest.KeepingParameters()})
	w.taken(err)
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
	w.withdrawn = w.withdrawn && d.WithdrawPersistentVolumes
	told := ""
	nodes := w.Instance().Nodes
	storage, masters := w.inForce()
	if d.Params.Cluster.StorageServer.KeepVolumes && w.unkept != "" && w.unkeptVolume == d.Topology.Volumes[0].ID {
		w.mayWrite[w.unkept] = true // it was told before
	}
	if d.Params.Cluster.StorageServer.KeepVolumes || w.unkept != storage {
		w.unkept = ""
	}
	if slices.ContainsFunc(masters, func(id string) bool { return slices.Contains(w.masters, id) }) {
		w.masters = masters
	} else {
		w.kept = "" // the cluster has gone
	}
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
	if w.gone[told] && !d.Params.Cluster.StorageServer.KeepVolumes {
		delete(w.mayWrite, told) // it came back, and nothing is kept by now
	}
	delete(w.gone, told)
	volume := w.Document(told).Storage.Volumes[0].VolumeID
	if w.kept != "" && volume != w.kept {
		t.Fatalf("the document of %s names the volume %s, and the PersistentVolumes are on %s", told, volume, w.kept)
	}
	switch {
	case d.Params.Cluster.StorageServer.KeepVolumes:
		w.mayWrite[told], w.masters, w.kept = true, masters, volume
	case len(w.mayWrite) == 0:
		w.masters, w.kept, w.unkept, w.unkeptVolume = nil, "", told, volume
	}
}
