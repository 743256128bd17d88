package persistentvolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// The label of volumes that nodehitch created.
const (
	ownerLabel = params.OwnerLabel
	owner      = params.Owner
)

// The phases that matter. Released and Failed mean that the volume's claim is gone.
const (
	phaseAvailable = "Available"
	phaseBound     = "Bound"
	phaseReleased  = "Released"
	phaseFailed    = "Failed"
)

// volume is a PersistentVolume, existing or desired.
type volume struct{ *unstructured.Unstructured }

// wanted turns a manifest into the form to apply, with our label and without what others
// decide. All else stays, also the claim that the manifest reserves the volume for; errors in
// it are reported by the API server.
func wanted(manifest json.RawMessage) (volume, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(manifest); err != nil {
		return volume{}, errors.New("is no Kubernetes object")
	}
	v := volume{u}
	if v.GetName() == "" || v.source() == (source{}) {
		return volume{}, errors.New("has no metadata.name or no spec.nfs")
	}
	params.RemoveUnapplied(u.Object)
	metadata, _ := u.Object["metadata"].(map[string]any)
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

// replaceable reports whether a volume that points elsewhere may be recreated: no claim has it,
// and it is reserved for none but that of the manifest, for which it will be reserved again.
func (v volume) replaceable(want volume) bool {
	return v.phase() == phaseAvailable && !v.bound() && (v.claim() == "" || v.claim() == want.claim())
}

// claimedAs returns the volume with the whole claim of the live one once that has or had a
// claim: what the cluster has bound is not changed, neither to what the manifest reserves it
// for nor, if the manifest has no claim any more, to nothing. API servers before 1.22 replace
// spec.claimRef as one value, so the claim's uid must be in it too.
func (v volume) claimedAs(live volume) volume {
	claim, found, _ := unstructured.NestedMap(live.Object, "spec", "claimRef") // a copy
	if !found || !live.bound() && !live.freed() || v.claim() == "" && !live.reservedByUs() {
		return v
	}
	same := volume{v.DeepCopy()}
	_ = unstructured.SetNestedMap(same.Object, claim, "spec", "claimRef") // spec is an object, or there is no source
	return same
}

// reservedByUs reports whether the claim is one that a manifest has given.
func (v volume) reservedByUs() bool {
	return slices.ContainsFunc(v.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == kubeapi.FieldManager && e.FieldsV1 != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:claimRef"`)
	})
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
