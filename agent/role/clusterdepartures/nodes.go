package clusterdepartures

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
)

// cordonedAnnotation is on the Nodes that nodehitch has cordoned, and others have not.
const cordonedAnnotation = "nodehitch.io/cordoned"

func cordoned(n kubeapi.Node) bool {
	unschedulable, _, _ := unstructured.NestedBool(n.Object, "spec", "unschedulable")
	return unschedulable
}

// cordon plans to let no Pod come to these Nodes, and reports whether one may come yet. A Node
// that others have cordoned stays theirs.
func (d *departures) cordon(nodes []kubeapi.Node) (open bool) {
	for _, n := range nodes {
		if cordoned(n) {
			continue
		}
		open = true
		d.do("cordon Node "+n.GetName(), func(ctx context.Context) error { return d.schedule(ctx, n, true, "true") })
	}
	return open
}

// uncordon plans to take back the cordon of the Nodes that do not leave, if it is nodehitch's.
func (d *departures) uncordon() {
	for _, n := range d.nodes {
		if _, ours := n.GetAnnotations()[cordonedAnnotation]; !ours || of(d.section.Members, n) {
			continue
		}
		d.actions = append(d.actions, converge.Action{Summary: "uncordon Node " + n.GetName(), Group: n.GetName(),
			Do: func(ctx context.Context) error { return d.schedule(ctx, n, nil, nil) }})
	}
}

// schedule sets the Node's spec.unschedulable with its annotation; nil removes one.
func (d *departures) schedule(ctx context.Context, n kubeapi.Node, unschedulable, annotation any) error {
	return d.PatchNode(ctx, n, map[string]any{cordonedAnnotation: annotation}, map[string]any{"unschedulable": unschedulable})
}
