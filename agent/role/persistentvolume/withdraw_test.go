package persistentvolume_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// registered is a master that has registered these and is now to have none.
func registered(t *testing.T, names ...string) *rig {
	r := master(t, names...)
	r.expect("True Registered")
	r.api.did = nil
	r.absent()
	return r
}

func TestAllOfAServerAreDeleted(t *testing.T) {
	r := registered(t, "pv1", "pv2")
	r.doc.PersistentVolumes.Manifests = []api.Manifest{}
	r.expect("True Absent", "no PersistentVolume of nodehitch's for 10.10.0.5")
	r.did("delete pv1", "delete pv2")
	r.expect("True Absent")
	r.did()
}

// The storage server was replaced: what still points to the old one goes by its name.
func TestOursAreDeletedByNameAsWell(t *testing.T) {
	r := registered(t, "pv1")
	r.doc.PersistentVolumes.Servers = []string{"10.10.0.6"}
	r.expect("True Absent")
	r.did("delete pv1")
}

func TestWhatOthersMadeStays(t *testing.T) {
	r := registered(t, "pv1")
	r.foreign("theirs", "::ffff:10.10.0.5")
	r.foreign("elsewhere", "10.10.0.50")
	r.expect("True Absent", "theirs are not nodehitch's and stay")
	r.did("delete pv1")
	if r.is("theirs") == nil || r.is("elsewhere") == nil {
		t.Error("one of others was deleted")
	}
}

func TestNoneIsDeletedWhileOneIsBound(t *testing.T) {
	for name, foreign := range map[string]bool{"of ours": false, "of others": true} {
		t.Run(name, func(t *testing.T) {
			r := registered(t, "pv1", "pv3")
			if foreign {
				r.foreign("pv2", server)
			} else {
				r.doc.PersistentVolumes.State = api.PersistentVolumesPresent
				r.add(manifest("pv2", server))
				r.expect("True Registered")
				r.did("apply pv2")
				r.absent()
			}
			r.api.bind("pv2", "default", "data")
			report := r.expect("False InUse", "none is deleted", "PersistentVolume pv2 is Bound, by claim default/data")
			r.did()
			if report.FailedCondition == "" {
				t.Error("a person has to act, and it is not said to have failed")
			}
			r.api.change("pv2", func(v object) { v["status"] = object{"phase": "Released"} })
			r.expect("True Absent")
		})
	}
}

// The cluster writes the claim into the volume a moment before it says Bound.
func TestNoneIsDeletedWhileOneIsBeingBound(t *testing.T) {
	r := registered(t, "pv1", "pv2")
	claimed := func(ref object) {
		r.api.change("pv2", func(v object) { spec(v)["claimRef"] = ref })
	}
	claimed(object{"namespace": "default", "name": "data", "uid": "7"})
	r.expect("False InUse", "none is deleted", "default/data")
	r.did()
	claimed(object{"uid": nil}) // kept for a claim that does not exist
	r.expect("True Absent")
	r.did("delete pv1", "delete pv2")
}

func TestOneOfAnotherServerMayBeBound(t *testing.T) {
	r := registered(t, "pv1")
	r.foreign("elsewhere", "10.10.0.50")
	r.api.bind("elsewhere", "default", "data")
	r.expect("True Absent")
}

func TestAVolumeThatIsBoundInBetweenIsNotDeleted(t *testing.T) {
	for when, c := range map[string]struct {
		says string
		did  []string
	}{
		"list":       {"none is deleted", nil},
		"delete pv1": {"may be in use; none was deleted", nil},
		"delete pv2": {"may be in use; deleted before that: pv1", []string{"delete pv1"}},
	} {
		t.Run(when, func(t *testing.T) {
			r := registered(t, "pv1", "pv2")
			seen := 0
			r.api.before = func(request string) {
				if request == when {
					if seen++; when != "list" || seen == 2 { // the first look is before the decision
						r.api.before = nil
						r.api.bind("pv2", "default", "data")
						if when == "delete pv1" {
							r.api.bind("pv1", "default", "more")
						}
					}
				}
			}
			r.expect("False InUse", "default/data", c.says)
			r.did(c.did...)
			if r.is("pv2") == nil || metadata(r.is("pv2"))["deletionTimestamp"] != nil {
				t.Error("it was deleted")
			}
		})
	}
}

func TestAVolumeThatHangsIsNamed(t *testing.T) {
	r := registered(t, "pv1", "pv2")
	r.api.change("pv2", func(v object) { metadata(v)["finalizers"] = []any{"kubernetes.io/pv-protection", "example.com/backup"} })
	r.expect("False StuckTerminating", "pv2", "example.com/backup")
	r.did("delete pv1", "delete pv2")
	r.expect("False StuckTerminating")
	r.did()
	r.doc.PersistentVolumes.State = api.PersistentVolumesPresent
	r.expect("False StuckTerminating", "pv2")
	r.did("apply pv1")
	r.api.mu.Lock()
	delete(r.api.volumes, "pv2")
	r.api.mu.Unlock()
	r.expect("True Registered")
}

// It was bound when a user deleted it: it goes with its claim and never comes back.
func TestABoundVolumeThatWasDeletedIsTerminal(t *testing.T) {
	r := registered(t, "pv1", "pv2")
	r.api.bind("pv2", "default", "data")
	r.api.change("pv2", func(v object) { metadata(v)["deletionTimestamp"] = "2026-01-02T03:04:05Z" })
	report := r.expect("False StuckTerminating", "pv2", "default/data", "cannot be undone")
	if report.FailedCondition == "" || r.is("pv1") == nil {
		t.Errorf("failed condition %q; pv1 is %v", report.FailedCondition, r.is("pv1"))
	}
	r.did()
}
