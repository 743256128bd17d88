package persistentvolume_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// left is a master that has registered pv1, pv2 and pv3; only pv1 still has a manifest.
func left(t *testing.T) *rig {
	r := master(t, "pv1", "pv2", "pv3")
	r.expect("True Registered")
	r.api.did = nil
	r.manifests(manifest("pv1", server))
	return r
}

func TestWhatNoManifestHasAnyMoreIsDeleted(t *testing.T) {
	r := left(t)
	r.foreign("theirs", server)
	r.expect("True Registered", "registered: pv1 Available")
	r.did("delete pv2", "delete pv3")
	if r.is("pv1") == nil || r.is("theirs") == nil {
		t.Error("another one was deleted")
	}
	r.expect("True Registered")
	r.did()
}

func TestAnEmptyListOfManifestsMeansNoneOfOurs(t *testing.T) {
	r := left(t)
	r.foreign("theirs", server)
	r.manifests()
	r.expect("True Registered", "there is no PersistentVolume to register")
	r.did("delete pv1", "delete pv2", "delete pv3")
	if r.is("theirs") == nil {
		t.Error("one of others was deleted")
	}
}

// The section says nothing of other storage servers, such as that of another VNF.
func TestOneOfAnotherServerIsNoStray(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.did("apply pv1")
	r.doc.PersistentVolumes.Servers = []string{"10.10.0.50", "fd00::5"}
	r.manifests()
	r.expect("True Registered")
	r.did()
	r.doc.PersistentVolumes.Servers = []string{"10.10.0.50", server}
	r.expect("True Registered")
	r.did("delete pv1")
}

func TestAStrayThatIsUsedIsKeptAndTheOthersGo(t *testing.T) {
	claim := object{"namespace": "default", "name": "data"}
	for name, c := range map[string]struct {
		phase    string
		claim    object
		uid      bool
		want     string
		says     string
		deletion bool
	}{
		"bound":              {phase: "Bound", claim: claim, uid: true, want: "False InUse", says: "PersistentVolume pv2 is no longer among the manifests and is bound to default/data; the agent deletes it when the claim is gone"},
		"being bound":        {phase: "Available", claim: claim, uid: true, want: "False InUse", says: "is bound to default/data"},
		"kept for a claim":   {phase: "Available", claim: claim, want: "False InUse", says: "is reserved for default/data; the agent deletes it when its spec.claimRef is removed"},
		"bound and deleted":  {phase: "Bound", claim: claim, uid: true, deletion: true, want: "False StuckTerminating", says: "still bound to default/data; it disappears with the claim"},
		"released":           {phase: "Released", claim: claim, uid: true, want: "True Registered"},
		"failed":             {phase: "Failed", claim: claim, uid: true, want: "True Registered"},
		"new to the cluster": {phase: "Pending", want: "True Registered"},
	} {
		t.Run(name, func(t *testing.T) {
			r := left(t)
			r.api.change("pv2", func(v object) {
				v["status"] = object{"phase": c.phase}
				if c.claim != nil {
					spec(v)["claimRef"] = merged(c.claim, nil)
				}
				if c.uid {
					spec(v)["claimRef"].(object)["uid"] = "7"
				}
				if c.deletion {
					metadata(v)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
				}
			})
			report := r.expect(c.want, c.says)
			if c.want == "True Registered" {
				r.did("delete pv2", "delete pv3")
				return
			}
			r.did("delete pv3")
			if report.FailedCondition != "" {
				t.Error("it goes by itself, and is said to have failed")
			}
			before := r.is("pv2")
			r.expect(c.want, c.says)
			r.did()
			if r.is("pv2")["metadata"].(object)["resourceVersion"] != before["metadata"].(object)["resourceVersion"] {
				t.Error("it was changed")
			}
		})
	}
}

// It was bound, or made anew, after it was inspected.
func TestAStrayThatIsChangedInBetweenIsNotDeleted(t *testing.T) {
	r := left(t)
	r.api.before = func(request string) {
		if request == "delete pv2" {
			r.api.before = nil
			r.api.bind("pv2", "default", "data")
		}
	}
	r.expect("False InUse", "may be in use", "is bound to default/data")
	r.did("delete pv3")
	if r.is("pv2") == nil || metadata(r.is("pv2"))["deletionTimestamp"] != nil {
		t.Error("it was deleted")
	}
	r.api.change("pv2", func(v object) { v["status"] = object{"phase": "Released"} })
	r.expect("True Registered")
	r.did("delete pv2")
}

func TestAStrayThatHangsIsNamed(t *testing.T) {
	r := left(t)
	r.api.change("pv2", func(v object) { metadata(v)["finalizers"] = []any{"kubernetes.io/pv-protection", "example.com/backup"} })
	r.expect("False StuckTerminating", "pv2", "example.com/backup")
	r.did("delete pv2", "delete pv3")
	r.expect("False StuckTerminating", "pv2")
	r.did()
}

// Strays are deleted even if a manifest cannot be registered.
func TestStraysGoBesideAManifestThatIsRefused(t *testing.T) {
	r := left(t)
	r.add(manifest("theirs", server))
	r.foreign("theirs", "192.0.2.1")
	r.expect("False ForeignPersistentVolume")
	r.did("delete pv2", "delete pv3")
}

func TestNoStrayIsDeletedUnderADocumentThatIsNotConfirmed(t *testing.T) {
	r := left(t)
	report := r.engine.Converge(t.Context(), r.doc, unconfirmed)
	if c := report.Condition(api.ConditionPersistentVolumesRegistered); c.Reason != api.ReasonWaitingForController {
		t.Errorf("the condition is %v", c)
	}
	r.did()
}
