package clusterdepartures

import (
	"context"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// drainsStep owns ClusterMembersDrained.
type drainsStep struct{ cluster }

// NewDrains returns the step that owns ClusterMembersDrained: the Nodes of members that are upgraded
// are cordoned and drained like those of members that leave, and stay.
func NewDrains(o Options) converge.Step {
	return &drainsStep{o.cluster("list and patch nodes, list pods, and create evictions")}
}

func (s *drainsStep) Condition() string { return api.ConditionClusterMembersDrained }

// ClusterScoped is for the same reason as that of members that leave.
func (s *drainsStep) ClusterScoped() {}

func (s *drainsStep) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	section := desired.ClusterDrains
	if section == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	d, err := s.open(ctx, desired, section.DeleteUnmanagedPods, false)
	if err != nil {
		return converge.Plan{}, err
	}
	d.uncordon()
	// One that also leaves is drained for that, as that section says.
	nodes := slices.DeleteFunc(nodesOf(section.Members, d.nodes), func(n kubeapi.Node) bool { return of(leaving(desired), n) })
	left, err := d.pods(ctx, nodes)
	if err == nil && (d.cordon(nodes) || len(left) > 0) { // a Pod may have come before the cordon
		d.do("drain "+names(nodes), func(ctx context.Context) error { return d.drain(ctx, nodes) })
	}
	message := "no member is upgraded"
	if len(section.Members) > 0 {
		message = fmt.Sprintf("the Nodes of all members that are upgraded are drained: %d", len(nodes))
	}
	return converge.Plan{Actions: d.actions, Reason: api.ReasonMembersDrained, Message: message}, err
}
