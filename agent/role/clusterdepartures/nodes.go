package clusterdepartures

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
)

// cordonedAnnotation is on the Nodes that nodehitch has cordoned, and others have not.
const cordonedAnnotation = "nodehitch.io/cordoned"

func cordoned(n kubeapi.Node) bool {
	unschedulable, _, _ := unstructured.NestedBool(n.Object, "spec", "unschedulable")
	return unschedulable
}

// cordon plans to let no Pod come to the Node. One that others have cordoned stays theirs.
func (d *departures) cordon(n kubeapi.Node) {
	if cordoned(n) {
		return
	}
	d.do("cordon Node "+n.GetName(), func(ctx context.Context) error { return d.schedule(ctx, n, true, "true") })
}

// uncordon plans to take back the cordon of the Nodes that do not leave, if it is nodehitch's.
func (d *departures) uncordon(nodes []kubeapi.Node) {
	for _, n := range nodes {
		if _, ours := n.GetAnnotations()[cordonedAnnotation]; !ours || of(d.section.Members, n) {
			continue
		}
		d.actions = append(d.actions, converge.Action{Summary: "uncordon Node " + n.GetName(), Group: n.GetName(),
			Do: func(ctx context.Context) error { return d.schedule(ctx, n, nil, nil) }})
	}
}

// schedule sets the Node's spec.unschedulable with its annotation; nil removes one.
func (d *departures) schedule(ctx context.Context, n kubeapi.Node, unschedulable, annotation any) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid":         n.GetUID(), // no other Node of the same name
			"annotations": map[string]any{cordonedAnnotation: annotation},
		},
		"spec": map[string]any{"unschedulable": unschedulable},
	})
	if err != nil {
		return err
	}
	_, err = d.Resource(kubeapi.Nodes).Patch(ctx, n.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kubeapi.FieldManager})
	return d.explain(err)
}

// delete deletes the Node. kubelet makes no other before it starts anew.
func (d *departures) delete(ctx context.Context, n kubeapi.Node) error {
	uid := n.GetUID()
	err := d.Resource(kubeapi.Nodes).Delete(ctx, n.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return d.explain(err)
}
