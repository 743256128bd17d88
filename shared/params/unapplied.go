package params

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// The label of PersistentVolumes that nodehitch created.
const (
	OwnerLabel = "app.kubernetes.io/managed-by"
	Owner      = "nodehitch"
)

// boundByController is the binder's annotation, which `kubectl get -o yaml` copies into
// manifests.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// The members of a PersistentVolume that the cluster or others decide, and those that a
// manifest does, by their object.
var (
	unapplied = map[fault.At][]string{
		"": {"status"},
		"/metadata": {
			"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
			"managedFields", "selfLink", "finalizers", "ownerReferences", "generateName", "namespace",
		},
		"/metadata/annotations": {boundByController},
		// The uid and version of a claim are those of one cluster at one moment.
		"/spec/claimRef": {"uid", "resourceVersion"},
	}
	applied = map[fault.At][]string{
		"":          {"apiVersion", "kind", "metadata", "spec"},
		"/metadata": {"name", "labels", "annotations"},
		"/spec": {
			"capacity", "accessModes", "nfs", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions",
			"volumeMode", "nodeAffinity", "volumeAttributesClassName",
		},
		"/spec/nfs":      {"server", "path", "readOnly"},
		"/spec/claimRef": {"apiVersion", "kind", "namespace", "name", "fieldPath"},
	}
)

// RemoveUnapplied removes from a PersistentVolume what is not a manifest's to decide. ReadManifest
// warns about each such member. All else is for the API server to accept or refuse.
func RemoveUnapplied(pv map[string]any) {
	for at, names := range unapplied {
		within := pv
		for _, name := range parts(at) {
			within, _ = within[name].(map[string]any)
		}
		for _, name := range names {
			delete(within, name)
		}
	}
	metadata, _ := pv["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

func parts(at fault.At) []string {
	return strings.FieldsFunc(string(at), func(r rune) bool { return r == '/' })
}

// member is what stands there, nil if nothing does.
func member(n *jsontree.Node, names ...string) *jsontree.Node {
	for _, name := range names {
		if n == nil || n.Kind != jsontree.Object {
			return nil
		}
		n = n.Get(name)
	}
	return n
}

// notApplied names each member of a manifest that has no effect, or that the API server
// probably does not know.
func notApplied(pv *jsontree.Node) []string {
	var list []string
	for _, at := range []fault.At{"", "/metadata", "/metadata/annotations", "/spec", "/spec/nfs", "/spec/claimRef"} {
		within := member(pv, parts(at)...)
		if within == nil || within.Kind != jsontree.Object {
			continue
		}
		for _, m := range within.Members {
			known, checked := applied[at]
			switch {
			case slices.Contains(unapplied[at], m.Name):
				list = append(list, fmt.Sprintf("has %s, which is not applied: the cluster decides it", at.Key(m.Name)))
			case checked && !slices.Contains(known, m.Name):
				text := fmt.Sprintf("has %.300s, which is not known to nodehitch; the API server refuses a PersistentVolume with a field that it does not know", at.Key(m.Name))
				if near := nearest.Name(m.Name, known); near != "" {
					text += "; did you mean " + grammar.Show(near) + "?"
				}
				list = append(list, text)
			}
		}
	}
	if label := member(pv, "metadata", "labels", OwnerLabel); label != nil && label.Text != Owner {
		list = append(list, fmt.Sprintf("has %s, which is not applied: nodehitch sets it to %s", fault.At("/metadata/labels").Key(OwnerLabel), Owner))
	}
	return list
}

// reclaimed says what becomes of the data when the claim of a volume is gone, unless it stays.
func reclaimed(policy string) []string {
	switch policy {
	case "Delete":
		return []string{"has persistentVolumeReclaimPolicy Delete: Kubernetes cannot delete a directory of an NFS server. When the claim is gone " +
			"the volume becomes Failed and its data stays; Retain, the default, keeps the data too"}
	case "Recycle":
		return []string{"has persistentVolumeReclaimPolicy Recycle: when the claim is gone Kubernetes deletes every file in the directory; Retain, the default, keeps them"}
	}
	return nil
}

// sharing names the other volumes of a list that are on the directory of one.
func sharing(volumes []PersistentVolume, one PersistentVolume) string {
	var others []string
	for _, v := range volumes {
		if v.NFSPath == one.NFSPath && v.Name != one.Name {
			others = append(others, grammar.Show(v.Name))
		}
	}
	slices.Sort(others)
	return strings.Join(others, ", ")
}
