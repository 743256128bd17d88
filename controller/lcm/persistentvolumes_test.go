package lcm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

const manifestFile = "Files/kubernetes/nfs-pv1.yaml"

// withVolumes is the cluster with a PersistentVolume.
func withVolumes(t *api.Topology) api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: withManifest("10.10.0.0/24"), Topology: t}
}

func withManifest(exportTo string) json.RawMessage {
	return json.RawMessage(strings.Replace(string(parameters(exportTo)), `"script_path"`,
		fmt.Sprintf(`"pv_registration_params": [{"pv_manifest_file_path": %q, "nfs_server_cp": "storage_server_CP"}], "script_path"`, manifestFile), 1))
}

// manifestOf is a manifest of one PersistentVolume.
func manifestOf(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], nfs: {server: 10.0.0.1, path: /volume/nfs/pv1}}\n", name)
}

// registered is a world whose cluster has registered its PersistentVolume.
func registered(t tester) *world {
	t.Helper()
	w := newWorld(t)
	w.put(withVolumes(full()))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(masterServer, workerServer, storageServer)
	if got := w.operation(op.ID); got.State != api.Processing {
		w.Fatalf("INSTANTIATE END is %s before the PersistentVolume can have been registered", got.State)
	}
	w.converge(masterServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w
}

// section is what the document of a node says of PersistentVolumes, nil for nothing.
func (w *world) section(nodeID string) *api.PersistentVolumesSection {
	w.Helper()
	config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, nodeID)
	w.must(err)
	return config.PersistentVolumes
}

// says is a report in which the condition of the PersistentVolumes is this one.
func (w *world) says(nodeID string, status api.ConditionStatus, reason api.Reason, message string) {
	w.Helper()
	w.saysOf(nodeID, api.ConditionPersistentVolumesRegistered, status, reason, message)
}

// saysOf is a report in which this condition is as given, and all others are True.
func (w *world) saysOf(nodeID, conditionType string, status api.ConditionStatus, reason api.Reason, message string) {
	w.Helper()
	s := w.status(nodeID)
	c := s.Condition(conditionType)
	if c == nil {
		w.Fatalf("the configuration of %s does not call for %s", nodeID, conditionType)
	}
	c.Status, c.Reason, c.Message = status, reason, message
	if status != api.ConditionTrue {
		s.Condition(api.ConditionReady).Status = api.ConditionFalse
		s.AppliedGeneration, s.AppliedDigest = 0, ""
	}
	w.report(nodeID, s)
}

func TestVolumesAreRegisteredOnceTheyAreServed(t *testing.T) {
	w := newWorld(t)
	w.put(withVolumes(full()))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	if n := w.node(masterServer); w.section(masterServer) != nil || n.Withheld[0].Reason != api.ReasonWaitingForExports ||
		!strings.Contains(n.Withheld[0].Message, "does not serve /volume/nfs/pv1 yet") {
		t.Fatalf("before the storage server serves: %+v", n)
	}
	w.converge(storageServer)
	got := w.section(masterServer)
	if got == nil || got.State != api.PersistentVolumesPresent || len(got.Manifests) != 1 || !strings.Contains(string(got.Manifests[0]), `"server":"10.10.0.5"`) {
		t.Fatalf("once it serves the section is %+v", got)
	}
	sick := w.status(storageServer)
	for i := range sick.Conditions {
		sick.Conditions[i].Status = api.ConditionFalse
	}
	w.report(storageServer, sick)
	if w.section(masterServer) == nil {
		t.Error("an export that fails for a while takes the PersistentVolumes away")
	}
}

func TestHealOfTheStorageServerWithdrawsItsVolumes(t *testing.T) {
	w := registered(t)
	start := w.post(heal(api.PhaseStart, nil, storageServer))
	if s := w.section(masterServer); start.State != api.Processing || s.State != api.PersistentVolumesAbsent || s.Servers[0] != "10.10.0.5" {
		t.Fatalf("HEAL START is %+v, the section %+v", start, s)
	}
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
	w.refused(err, api.ProblemOperationInProgress, "HEAL START")
	w.restart()
	w.says(masterServer, api.ConditionTrue, api.ReasonRegistered, "")
	if got := w.operation(start.ID); got.State != api.Processing {
		t.Fatalf("HEAL START is %s on the word of a document that is no more", got.State)
	}
	w.says(masterServer, api.ConditionTrue, api.ReasonAbsent, "")
	if got := w.operation(start.ID); got.State != api.Completed {
		t.Fatalf("HEAL START is %+v, want COMPLETED", got)
	}
	end := w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
	if s := w.section(masterServer); s != nil {
		t.Fatalf("before the new storage server serves the section is %+v", s)
	}
	w.converge(uuid(1, 2), masterServer)
	if s := w.section(masterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Fatalf("after it the section is %+v", s)
	}
	w.converge(masterServer)
	if got := w.operation(end.ID); got.State != api.Completed {
		t.Fatalf("HEAL END is %+v, want COMPLETED", got)
	}
}

func TestAVolumeInUseFailsTheHealAtOnce(t *testing.T) {
	w := registered(t)
	version := w.instance().DesiredVersion
	start := w.post(heal(api.PhaseStart, nil, storageServer))
	const message = "none is deleted: PersistentVolume pv1 is Bound, by claim default/data"
	w.says(masterServer, api.ConditionFalse, api.ReasonInUse, message)
	got := w.operation(start.ID)
	if got.State != api.Failed {
		t.Fatalf("HEAL START is %+v, want FAILED", got)
	}
	w.refused(got.Error, api.ProblemVolumesInUse, "are in use (409): "+message, "the previous desired state is in force again")
	if s := w.section(masterServer); w.instance().DesiredVersion != version || s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("version %d is in force, want %d; the section is %+v", w.instance().DesiredVersion, version, s)
	}
}

func TestVolumesThatAreNotGoneByTheDeadlineComeBack(t *testing.T) {
	w := registered(t)
	r := heal(api.PhaseStart, nil, storageServer)
	r.DeadlineSeconds = 60
	start := w.post(r)
	w.says(masterServer, api.ConditionFalse, api.ReasonStuckTerminating, "PersistentVolume pv1 was deleted and is not gone")
	w.put(withVolumes(full())) // the same again: nothing changes
	w.Clock.Advance(time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	got := w.operation(start.ID)
	w.refused(got.Error, api.ProblemDeadline, "StuckTerminating", "pv1 was deleted and is not gone")
	if s := w.section(masterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("the section is %+v", s)
	}
}

func TestAnotherMasterSpeaksForTheClusterWhenOneIsLost(t *testing.T) {
	w := registered(t)
	second := uuid(2, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "master"))
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.converge(second)
	if w.section(second) != nil {
		t.Fatal("two masters register the PersistentVolumes")
	}
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(second)
		w.must(w.LCM.Sweep(w.ctx))
	}
	if w.section(second) == nil || w.section(masterServer) != nil {
		t.Fatal("the master that fell silent still speaks for the cluster")
	}
	w.LCM.Nodes.Seen(masterServer)
	if w.section(second) == nil || w.section(masterServer) != nil {
		t.Error("the one that came back has taken over from one that is well")
	}
}

// That a master has been silent for too long is found by the sweep and by nothing else.
// A plan between two sweeps that read the clock itself would find it too, and so what is
// on record would depend on whether anything happened to be planned: here, after a call
// that changes nothing, at the moment at which the first master's time is over.
func TestTimeAloneTakesNothingFromTheMasterThatSpeaks(t *testing.T) {
	w := registered(t)
	second := uuid(2, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "master"))
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.converge(second, masterServer)
	for range 3 {
		w.Clock.Advance(cadence)
		w.LCM.Nodes.Seen(second)
		w.must(w.LCM.Sweep(w.ctx))
	}
	w.refused(w.enroll(second), api.ProblemIdentityLive) // the clock goes on
	inLine := func(when string) {
		if w.writes(func() { w.must(w.LCM.Reconciler.Reconcile(w.ctx, instanceID)) }) {
			t.Errorf("%s, the records are not in line with the desired state in force", when)
		}
	}
	inLine("before the sweep")
	if got := w.node(masterServer).State; got != api.NodeEnrolled || w.section(masterServer) == nil {
		t.Errorf("before the sweep the first master is %s and its section %+v", got, w.section(masterServer))
	}
	w.must(w.LCM.Sweep(w.ctx))
	inLine("after the sweep")
	if got := w.node(masterServer).State; got != api.NodeLost || w.section(masterServer) != nil || w.section(second) == nil {
		t.Errorf("after the sweep the first master is %s and its section %+v, that of the second %+v", got, w.section(masterServer), w.section(second))
	}
}

func TestVolumesOfAServerThatIsGoneDoNotComeBack(t *testing.T) {
	w := registered(t)
	start := w.post(heal(api.PhaseStart, nil, storageServer))
	w.says(masterServer, api.ConditionTrue, api.ReasonAbsent, "")
	for range 70 { // Heat takes longer than the START waits
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(masterServer)
		w.must(w.LCM.Sweep(w.ctx))
	}
	w.refused(w.operation(start.ID).Error, api.ProblemInterrupted)
	if n := w.node(masterServer); w.section(masterServer) != nil || n.Withheld[0].Reason != api.ReasonWaitingForExports {
		t.Fatalf("the storage server is silent, and the section is %+v", w.section(masterServer))
	}
	w.report(storageServer, w.status(storageServer))
	if s := w.section(masterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("once it is back the section is %+v", s)
	}
}
