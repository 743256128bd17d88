package persistentvolume_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestVolumesAreRegisteredOnce(t *testing.T) {
	r := master(t, "pv1", "pv2")
	r.expect("True Registered", "pv1 Available, pv2 Available")
	r.did("apply pv1", "apply pv2")
	want := object{
		"capacity": object{"storage": "1Gi"}, "accessModes": []any{"ReadWriteMany"},
		"nfs": object{"server": server, "path": "/volume/nfs/pv1"},
	}
	if diff := cmp.Diff(want, spec(r.is("pv1"))); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object{"tier": "data", "app.kubernetes.io/managed-by": "nodehitch"}, metadata(r.is("pv1"))["labels"]); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	r.expect("True Registered")
	r.did()
	if !r.m.Changes().None() {
		t.Errorf("the machine was changed: %s", r.m.Changes())
	}
}

// What the cluster writes to a volume during its life is not a difference to correct.
func TestAVolumeThatIsUsedStaysRegistered(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.did("apply pv1")
	r.api.bind("pv1", "default", "data")
	r.expect("True Registered", "pv1 Bound")
	r.api.change("pv1", func(v object) { v["status"] = object{"phase": "Released"} })
	r.expect("True Registered", "pv1 Released")
	r.did()
}

func TestAFieldThatOthersChangedIsPutBack(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.api.bind("pv1", "default", "data")
	r.api.change("pv1", func(v object) {
		metadata(v)["labels"].(object)["tier"] = "junk"
		metadata(v)["labels"].(object)["theirs"] = "kept"
	})
	r.did("apply pv1")
	r.expect("True Registered")
	r.did("apply pv1")
	if got := metadata(r.is("pv1"))["labels"].(object); got["tier"] != "data" || got["theirs"] != "kept" {
		t.Errorf("labels %v", got)
	}
	if spec(r.is("pv1"))["claimRef"] == nil || r.is("pv1")["status"].(object)["phase"] != "Bound" {
		t.Errorf("its claim was changed: %v", r.is("pv1"))
	}
}

// A manifest out of `kubectl get -o yaml` has what is not the manifest's to say.
func TestWhatAManifestDoesNotDecideIsLeftOut(t *testing.T) {
	r := master(t)
	text := strings.Replace(manifest("pv1", server), `"spec": {`, `"status": {"phase": "Bound"}, "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "a", "name": "b", "uid": "7", "resourceVersion": "9"},`, 1)
	r.add(strings.Replace(text, `"name"`, `"uid": "x", "resourceVersion": "99", "finalizers": ["a/b"], "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}, "name"`, 1))
	r.expect("True Registered", "pv1 Available")
	v := r.is("pv1")
	if diff := cmp.Diff(object{"kind": "PersistentVolumeClaim", "namespace": "a", "name": "b"}, spec(v)["claimRef"]); diff != "" {
		t.Errorf("the claim (-want +got):\n%s", diff)
	}
	if metadata(v)["annotations"] != nil || metadata(v)["uid"] == "x" || len(metadata(v)["finalizers"].([]any)) != 1 {
		t.Errorf("applied %v", v)
	}
	r.did("apply pv1")
	r.expect("True Registered")
	r.did()
}

// reserved is a manifest that reserves its volume for a claim.
func reserved(name, server, claim string) string {
	return strings.Replace(manifest(name, server), `"spec": {`, `"spec": {"claimRef": {"namespace": "a", "name": "`+claim+`"},`, 1)
}

func TestTheClaimOfABoundVolumeStays(t *testing.T) {
	r := master(t)
	r.add(reserved("pv1", server, "mine"))
	r.expect("True Registered", "pv1 Available")
	r.api.bind("pv1", "a", "mine")
	r.expect("True Registered", "pv1 Bound")
	r.did("apply pv1")
	r.api.change("pv1", func(v object) {
		spec(v)["claimRef"] = object{"namespace": "a", "name": "another", "uid": "7"}
		metadata(v)["labels"].(object)["tier"] = "junk"
	})
	r.expect("True Registered", "pv1 Bound (the manifest reserves it for claim a/mine, and it is or was bound to a/another)")
	r.did("apply pv1")
	if diff := cmp.Diff(object{"namespace": "a", "name": "another", "uid": "7"}, spec(r.is("pv1"))["claimRef"]); diff != "" {
		t.Errorf("the claim (-want +got):\n%s", diff)
	}
}

// A claim that an earlier manifest gave is removed by an apply without it, unless it is bound.
func TestAManifestWithoutTheClaimOfBeforeUnbindsNothing(t *testing.T) {
	for phase, want := range map[string]string{"Bound": "uid", "Released": "uid", "Available": ""} {
		r := master(t)
		r.add(reserved("pv1", server, "mine"))
		r.expect("True Registered", "pv1 Available")
		r.api.change("pv1", func(v object) {
			metadata(v)["managedFields"] = []any{object{"manager": "nodehitch", "operation": "Apply", "fieldsV1": object{"f:spec": object{"f:claimRef": object{"f:name": object{}}}}}}
			v["status"] = object{"phase": phase}
			if want != "" {
				spec(v)["claimRef"].(object)["uid"] = want
			}
		})
		r.manifests(strings.Replace(manifest("pv1", server), `"tier": "data"`, `"tier": "other"`, 1))
		r.expect("True Registered", "pv1 "+phase)
		applied := r.api.lastApplied["spec"].(object)["claimRef"]
		if got, _ := applied.(object); want == "" && applied != nil || want != "" && (got["uid"] != want || got["name"] != "mine") {
			t.Errorf("to a volume that is %s the agent applies the claim %v", phase, applied)
		}
	}
}

func TestAVolumeThatItsManifestReservesIsRecreated(t *testing.T) {
	r := master(t)
	r.add(reserved("pv1", "10.10.0.9", "mine"))
	r.expect("True Registered", "pv1 Available")
	r.manifests(reserved("pv1", server, "mine"))
	r.expect("True Registered", "pv1 Available")
	r.did("apply pv1", "delete pv1", "apply pv1")
	if claim := spec(r.is("pv1"))["claimRef"]; claim == nil {
		t.Error("the reservation is gone")
	}
}

func TestAVolumeOfOthersIsNotTouched(t *testing.T) {
	r := master(t, "pv1", "pv2")
	r.foreign("pv1", "192.0.2.1")
	before := r.is("pv1")
	r.expect("False ForeignPersistentVolume", "pv1", "app.kubernetes.io/managed-by")
	r.did("apply pv2")
	if diff := cmp.Diff(before, r.is("pv1")); diff != "" {
		t.Error(diff)
	}
}

func TestAVolumeThatOthersMakeInBetweenIsNotTakenOver(t *testing.T) {
	r := master(t, "pv1")
	r.api.before = func(request string) {
		if request == "apply pv1" {
			r.foreign("pv1", "192.0.2.1")
		}
	}
	r.expect("False ForeignPersistentVolume")
	r.did()
	if spec(r.is("pv1"))["nfs"].(object)["server"] != "192.0.2.1" {
		t.Error("it was taken over")
	}
}

func TestAnotherSource(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig)
		want   string
		says   string
		did    []string
	}{
		"of a free one":  {func(*rig) {}, "True Registered", "pv1 Available", []string{"delete pv1", "apply pv1"}},
		"of a bound one": {func(r *rig) { r.api.bind("pv1", "default", "data") }, "False SourceImmutable", "by claim default/data, and it points to 10.10.0.5:/volume/nfs/pv1; expected 10.10.0.6:/volume/nfs/pv1: delete its claim, then the PersistentVolume", nil},
		"of a released one": {func(r *rig) {
			r.api.bind("pv1", "default", "data")
			r.api.change("pv1", func(v object) { v["status"] = object{"phase": "Released"} })
		}, "False SourceImmutable", "pv1 is Released, claim default/data is gone, and it points to 10.10.0.5:/volume/nfs/pv1; expected 10.10.0.6:/volume/nfs/pv1: delete it (kubectl delete pv pv1)", nil},
		"of one kept for a claim": {func(r *rig) {
			r.api.change("pv1", func(v object) { spec(v)["claimRef"] = object{"namespace": "a", "name": "b"} })
		}, "False SourceImmutable", "reserved for claim a/b", nil},
		"of one that is new to the cluster": {func(r *rig) {
			r.api.change("pv1", func(v object) { v["status"] = object{"phase": "Pending"} })
		}, "False SourceImmutable", "recreates it when", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := master(t, "pv1")
			r.expect("True Registered")
			r.did("apply pv1")
			c.before(r)
			r.doc.PersistentVolumes.Manifests = nil
			r.add(manifest("pv1", "10.10.0.6"))
			r.expect(c.want, c.says)
			r.did(c.did...)
		})
	}
}

// Something keeps the old one from going, so there is no place for the new one.
func TestOneThatIsMadeAnewWaitsForTheOldToBeGone(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.api.change("pv1", func(v object) { metadata(v)["finalizers"] = []any{"kubernetes.io/pv-protection", "example.com/backup"} })
	r.did("apply pv1")
	r.doc.PersistentVolumes.Manifests = nil
	r.add(manifest("pv1", "10.10.0.6"))
	r.expect("False StuckTerminating", "pv1", "example.com/backup")
	r.did("delete pv1")
}

// It was bound after it was inspected and before it was deleted.
func TestAVolumeThatIsBoundInBetweenIsNotMadeAnew(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.did("apply pv1")
	r.doc.PersistentVolumes.Manifests = nil
	r.add(manifest("pv1", "10.10.0.6"))
	r.api.before = func(request string) {
		if request == "delete pv1" {
			r.api.bind("pv1", "default", "data")
		}
	}
	r.expect("False SourceImmutable", "default/data")
	r.did()
}

// The cluster's controllers write to a volume right after it was made.
func TestAnInspectionThatIsDisturbedIsRepeated(t *testing.T) {
	r := master(t, "pv1")
	tries := 0
	r.api.before = func(request string) {
		if request == "try pv1" {
			if tries++; tries < 3 {
				r.api.change("pv1", func(object) {})
			}
		}
	}
	r.expect("True Registered")
	r.did("apply pv1")
	r.api.change("pv1", func(object) {})
	r.api.before = func(request string) {
		if request == "try pv1" {
			r.api.change("pv1", func(object) {})
		}
	}
	r.expect("False Converging", "changed while the agent compared it")
}

func TestAManifestThatIsRefusedIsTerminal(t *testing.T) {
	r := master(t, "pv2")
	r.add(strings.Replace(manifest("pv1", server), `"capacity": {"storage": "1Gi"},`, "", 1))
	report := r.expect("False ManifestRejected", "spec.capacity: Required value")
	if report.FailedCondition == "" || r.is("pv2") == nil {
		t.Errorf("failed condition %q; pv2: %v", report.FailedCondition, r.is("pv2"))
	}
}

func TestWithoutASectionTheClusterIsNotAsked(t *testing.T) {
	r := master(t)
	r.doc.PersistentVolumes = nil
	r.api.before = func(request string) { t.Errorf("asked to %s", request) }
	if c := func() *api.Condition {
		report := r.pass()
		return report.Condition(api.ConditionPersistentVolumesRegistered)
	}(); c != nil {
		t.Errorf("the condition is %v", c)
	}
}

// A master that was cut off has a document of yesterday.
func TestNothingIsChangedUnderADocumentThatIsNotConfirmed(t *testing.T) {
	for _, state := range []api.PersistentVolumesSectionState{api.PersistentVolumesPresent, api.PersistentVolumesAbsent} {
		r := master(t, "pv1")
		if state == api.PersistentVolumesAbsent {
			r.expect("True Registered")
			r.did("apply pv1")
		}
		r.doc.PersistentVolumes.State = state
		report := r.engine.Converge(t.Context(), r.doc, converge.Options{})
		if c := report.Condition(api.ConditionPersistentVolumesRegistered); c.Reason != api.ReasonWaitingForController {
			t.Errorf("%s: the condition is %v", state, c)
		}
		r.did()
	}
}

// Each request may take its whole limit, so that one is enough.
func TestAClusterThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	r := master(t, "pv1", "pv2", "pv3")
	r.api.answer = http.StatusServiceUnavailable
	var asked []string
	r.api.before = func(request string) { asked = append(asked, request) }
	r.expect("False ClusterNotInstalled")
	if len(asked) != 1 {
		t.Errorf("asked %q, want one request", asked)
	}
}

func TestTheClusterIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		broken func(r *rig)
		says   string
	}{
		"no kubeconfig":     {func(r *rig) { delete(r.m.Files, "/etc/kubernetes/admin.conf") }, "/etc/kubernetes/admin.conf does not exist"},
		"half a kubeconfig": {func(r *rig) { r.setKubeconfig(r.api.kubeconfig()[:60]) }, "not a complete kubeconfig"},
		"nothing in it":     {func(r *rig) { r.setKubeconfig("") }, "not a complete kubeconfig"},
		"credentials by a program": {func(r *rig) {
			r.setKubeconfig(strings.Replace(r.api.kubeconfig(), "token: "+token, "exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}", 1))
		}, "use a client certificate"},
		"a token that is not taken": {func(r *rig) { r.setKubeconfig(strings.Replace(r.api.kubeconfig(), token, "s3cr3t", 1)) }, "does not accept the credentials of /etc/kubernetes/admin.conf: "},
		"a CA that is another": {func(r *rig) {
			r.setKubeconfig(strings.Replace(r.api.kubeconfig(), "certificate-authority-data", "tls-server-name: x.invalid, certificate-authority-data", 1))
		}, "is not the API server that /etc/kubernetes/admin.conf trusts"},
		"the API server is not there": {func(r *rig) {
			r.setKubeconfig(strings.Replace(r.api.kubeconfig(), r.api.URL, "https://127.0.0.1:1", 1))
		}, "does not answer"},
		"it is starting": {func(r *rig) { r.api.answer = http.StatusServiceUnavailable }, "the API server failed"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, absent := range []bool{false, true} {
				r := master(t, "pv1", "pv2")
				if absent {
					r.absent()
				}
				good := r.api.kubeconfig()
				c.broken(r)
				report := r.expect("False ClusterNotInstalled", c.says)
				message := report.Condition(api.ConditionPersistentVolumesRegistered).Message
				if strings.Contains(message, "s3cr3t") || strings.Contains(message, token) || report.FailedCondition != "" {
					t.Errorf("%q is terminal (%q) or has a secret", message, report.FailedCondition)
				}
				r.did()
				r.setKubeconfig(good)
				r.api.answer = 0
				if absent {
					r.expect("True Absent")
				} else {
					r.expect("True Registered")
				}
			}
		})
	}
}
