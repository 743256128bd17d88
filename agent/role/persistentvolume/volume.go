package persistentvolume

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What marks a volume as made by nodehitch.
const (
	ownerLabel = "app.kubernetes.io/managed-by"
	owner      = "nodehitch"
)

// boundByController is the binder's note, which `kubectl get -o yaml` puts into
// manifests.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// The phases that matter. Released and Failed are those of a volume whose claim is gone.
const (
	phaseAvailable = "Available"
	phaseBound     = "Bound"
	phaseReleased  = "Released"
	phaseFailed    = "Failed"
)

// volume is a PersistentVolume, or what one is to be.
type volume struct{ *unstructured.Unstructured }

// notOurs are the members of metadata that are the cluster's to say, or another's.
var notOurs = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink", "finalizers", "ownerReferences", "generateName", "namespace",
}

// wanted is a manifest as it is applied, marked as ours. What others own of a volume,
// its claim and its status, is left out. All else stays, also what is wrong: the API
// server says it better.
func wanted(manifest json.RawMessage) (volume, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(manifest); err != nil {
		return volume{}, errors.New("is no object of Kubernetes")
	}
	v := volume{u}
	if v.GetName() == "" || v.source() == (source{}) {
		return volume{}, errors.New("has no metadata.name or no spec.nfs")
	}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "spec", "claimRef")
	metadata, _ := u.Object["metadata"].(map[string]any)
	for _, name := range notOurs {
		delete(metadata, name)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		if delete(annotations, boundByController); len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	if metadata["labels"] == nil {
		metadata["labels"] = map[string]any{}
	}
	if labels, ok := metadata["labels"].(map[string]any); ok {
		labels[ownerLabel] = owner
	}
	return v, nil
}

func (v volume) text(fields ...string) string {
	text, _, _ := unstructured.NestedString(v.Object, fields...)
	return text
}

func (v volume) phase() string  { return v.text("status", "phase") }
func (v volume) ours() bool     { return v.GetLabels()[ownerLabel] == owner }
func (v volume) deleting() bool { return v.GetDeletionTimestamp() != nil }

// claim is the claim that the volume is bound to, was bound to or is kept for, as
// namespace/name, "" for none.
func (v volume) claim() string {
	name := v.text("spec", "claimRef", "name")
	if name == "" {
		return ""
	}
	return v.text("spec", "claimRef", "namespace") + "/" + name
}

// freed says that the claim of the volume is gone.
func (v volume) freed() bool { return v.phase() == phaseReleased || v.phase() == phaseFailed }

// bound says that a claim has the volume. The cluster writes the claim's uid into the
// volume first, and Bound a moment later.
func (v volume) bound() bool {
	return v.phase() == phaseBound || v.text("spec", "claimRef", "uid") != "" && !v.freed()
}

// use says what a volume is used for.
func (v volume) use() string {
	text := fmt.Sprintf("PersistentVolume %s is %s", v.GetName(), v.phase())
	switch claim := v.claim(); {
	case claim == "":
	case v.bound():
		text += ", by claim " + claim
	case v.freed():
		text += ", claim " + claim + " is gone"
	default:
		text += ", kept for claim " + claim
	}
	return text
}

// stuck is the error of a volume that was deleted and is still there. One that is
// bound is gone when its claim is, and nobody can take the deletion back.
func (v volume) stuck() error {
	if v.phase() == phaseBound {
		return converge.Fail(api.ReasonStuckTerminating,
			"PersistentVolume %s was deleted and is still bound to claim %s; this cannot be undone: it goes when the claim does", v.GetName(), v.claim())
	}
	return converge.Wait(api.ReasonStuckTerminating, "PersistentVolume %s was deleted and is not gone; its finalizers are %v", v.GetName(), v.GetFinalizers())
}
