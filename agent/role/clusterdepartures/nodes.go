package clusterdepartures

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// leaving are the members that are to leave.
func leaving(desired *api.NodeConfig) []api.ClusterServer {
	if desired.ClusterDepartures == nil {
		return nil
	}
	return desired.ClusterDepartures.Members
}

// upgraded are the members that are upgraded.
func upgraded(desired *api.NodeConfig) []api.ClusterServer {
	if desired.ClusterDrains == nil {
		return nil
	}
	return desired.ClusterDrains.Members
}

// cordonedAnnotation is on the Nodes that nodehitch has cordoned, and others have not.
const cordonedAnnotation = "nodehitch.io/cordoned"

// cordon plans to let no Pod come to these Nodes, and reports whether one may come yet. A Node
// that others have cordoned stays theirs.
func (d *drainage) cordon(nodes []kubeapi.Node) (open bool) {
	for _, n := range nodes {
		if n.Cordoned() {
			continue
		}
		open = true
		d.do("cordon Node "+n.GetName(), func(ctx context.Context) error { return d.schedule(ctx, n, true, "true") })
	}
	return open
}

// uncordon plans to take back the cordon of the Nodes that neither leave nor are upgraded, if it is
// nodehitch's.
func (d *drainage) uncordon() {
	listed := slices.Concat(leaving(d.desired), upgraded(d.desired))
	for _, n := range d.nodes {
		if _, ours := n.GetAnnotations()[cordonedAnnotation]; !ours || of(listed, n) {
			continue
		}
		d.actions = append(d.actions, converge.Action{Summary: "uncordon Node " + n.GetName(), Group: n.GetName(),
			Do: func(ctx context.Context) error { return d.schedule(ctx, n, nil, nil) }})
	}
}

// schedule sets the Node's spec.unschedulable with its annotation; nil removes one.
func (d *drainage) schedule(ctx context.Context, n kubeapi.Node, unschedulable, annotation any) error {
	return d.PatchNode(ctx, n, map[string]any{cordonedAnnotation: annotation}, map[string]any{"unschedulable": unschedulable})
}
