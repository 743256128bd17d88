package persistentvolume

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The label of volumes that nodehitch created.
const (
	ownerLabel = "app.kubernetes.io/managed-by"
	owner      = "nodehitch"
)

// boundByController is the binder's annotation, which `kubectl get -o yaml` copies into
// manifests.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// The phases that matter. Released and Failed mean that the volume's claim is gone.
const (
	phaseAvailable = "Available"
	phaseBound     = "Bound"
	phaseReleased  = "Released"
	phaseFailed    = "Failed"
)

// volume is a PersistentVolume, existing or desired.
type volume struct{ *unstructured.Unstructured }

// notOurs are the members of metadata that belong to the cluster or to others.
var notOurs = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink", "finalizers", "ownerReferences", "generateName", "namespace",
}

// wanted turns a manifest into the form to apply, with our label. It removes what others
// own: claim and status. All else stays; errors in it are reported by the API server.
func wanted(manifest json.RawMessage) (volume, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(manifest); err != nil {
		return volume{}, errors.New("is no Kubernetes object")
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

// claim is the claim that the volume is or was bound to or is reserved for, as
// namespace/name, "" for none.
func (v volume) claim() string {
	name := v.text("spec", "claimRef", "name")
	if name == "" {
		return ""
	}
	return v.text("spec", "claimRef", "namespace") + "/" + name
}

// freed reports whether the volume's claim is gone.
func (v volume) freed() bool { return v.phase() == phaseReleased || v.phase() == phaseFailed }

// bound reports whether the volume is bound to a claim. The cluster writes the claim's
// uid into the volume first, and the phase Bound a moment later.
func (v volume) bound() bool {
	return v.phase() == phaseBound || v.text("spec", "claimRef", "uid") != "" && !v.freed()
}

// use describes how a volume is used.
func (v volume) use() string {
	text := fmt.Sprintf("PersistentVolume %s is %s", v.GetName(), v.phase())
	switch claim := v.claim(); {
	case claim == "":
	case v.bound():
		text += ", by claim " + claim
	case v.freed():
		text += ", claim " + claim + " is gone"
	default:
		text += ", reserved for claim " + claim
	}
	return text
}

// stuck is the error of a volume that was deleted but still exists. A bound one
// disappears with its claim; the deletion cannot be undone.
func (v volume) stuck() error {
	if v.phase() == phaseBound {
		return converge.Fail(api.ReasonStuckTerminating,
			"PersistentVolume %s was deleted and is still bound to claim %s; this cannot be undone: it disappears with the claim", v.GetName(), v.claim())
	}
	return converge.Wait(api.ReasonStuckTerminating, "PersistentVolume %s was deleted but still exists; its finalizers are %v", v.GetName(), v.GetFinalizers())
}
