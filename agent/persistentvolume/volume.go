package persistentvolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

// source is spec.nfs, which cannot be changed.
type source struct {
	server, path string
	readOnly     bool
}

func (s source) String() string {
	if s == (source{}) {
		return "no NFS export"
	}
	text := s.server + ":" + s.path
	if strings.Contains(s.server, ":") && !strings.HasPrefix(s.server, "[") {
		text = "[" + s.server + "]:" + s.path
	}
	if s.readOnly {
		text += " (read-only)"
	}
	return text
}

// wanted is a manifest as it is applied: name, labels, annotations and spec, marked
// as ours. What others own of a volume, its claim and its status, is left out.
func wanted(manifest json.RawMessage) (volume, error) {
	given := &unstructured.Unstructured{}
	if err := given.UnmarshalJSON(manifest); err != nil {
		return volume{}, errors.New("is no object of Kubernetes")
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": given.Object["spec"]}}
	u.SetAPIVersion(given.GetAPIVersion())
	u.SetKind(given.GetKind())
	u.SetName(given.GetName())
	labels := given.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ownerLabel] = owner
	u.SetLabels(labels)
	annotations := given.GetAnnotations()
	delete(annotations, boundByController)
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
	unstructured.RemoveNestedField(u.Object, "spec", "claimRef")
	v := volume{u}
	if v.GetName() == "" || v.source() == (source{}) {
		return volume{}, errors.New("has no metadata.name or no spec.nfs")
	}
	return v, nil
}

func (v volume) text(fields ...string) string {
	text, _, _ := unstructured.NestedString(v.Object, fields...)
	return text
}

func (v volume) source() source {
	readOnly, _, _ := unstructured.NestedBool(v.Object, "spec", "nfs", "readOnly")
	return source{server: v.text("spec", "nfs", "server"), path: v.text("spec", "nfs", "path"), readOnly: readOnly}
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

// servedBy says whether the volume is on the server with these addresses.
func (v volume) servedBy(servers []string) bool {
	have := v.source().server
	return have != "" && slices.ContainsFunc(servers, func(s string) bool { return sameAddress(have, s) })
}

// sameAddress compares addresses however they are written: kubelet takes an IPv6 one
// with brackets as well.
func sameAddress(x, y string) bool {
	a, errA := netip.ParseAddr(plain(x))
	b, errB := netip.ParseAddr(plain(y))
	if errA != nil || errB != nil {
		return x == y
	}
	return a.Unmap() == b.Unmap()
}

func plain(address string) string {
	if inner, ok := strings.CutPrefix(address, "["); ok {
		return strings.TrimSuffix(inner, "]")
	}
	return address
}

// writtenAs is the volume with its server as the live one has it, where both mean the
// same one: not even the way it is written can be changed.
func (v volume) writtenAs(live volume) volume {
	if !sameAddress(v.source().server, live.source().server) || v.source() == live.source() {
		return v
	}
	same := volume{v.DeepCopy()}
	_ = unstructured.SetNestedField(same.Object, live.source().server, "spec", "nfs", "server") // spec.nfs is an object, or there is no server
	return same
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
