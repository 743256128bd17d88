package plan

import (
	"cmp"
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
)

// addOwned gives the sections that are about the whole cluster to the master that speaks for
// it, and those of cluster_members to every member. Without any of them nobody speaks: a
// cluster that never had one may have no API server.
func (o *Output) addOwned(in Input) {
	o.CarriedOver.Members, o.CarriedOver.Unproven = o.members(in)
	volumes, members := hasPersistentVolumes(in), in.Params.ClusterMembers() != nil
	if !volumes && !members {
		return
	}
	owner := o.owner(in)
	o.CarriedOver.Owner = ""
	if owner != nil {
		o.CarriedOver.Owner = owner.ID
	}
	if in.Params.Cluster.Kubernetes != nil {
		o.addKubernetes(in, owner)
	}
	if volumes {
		o.addPersistentVolumes(in, owner)
	}
	if members {
		o.CarriedOver.Initialize = o.mayInitialize(in, owner)
		o.addCluster(in, owner)
	}
}

// members are the masters that are members of the cluster, and those that were before: one that
// is away is a member all the same. One that has enrolled anew is unproven until it says which
// of the two it is, the machine of before or another one that has joined nothing.
func (o *Output) members(in Input) (ids, unproven []string) {
	for _, n := range o.Nodes { // ordered by id
		if n.Role != api.RoleMaster {
			continue
		}
		seen, before := in.Nodes[n.ID], slices.Contains(in.CarriedOver.Members, n.ID)
		doubted := before && !seen.Member && (seen.Anew || slices.Contains(in.CarriedOver.Unproven, n.ID))
		if doubted && seen.NotJoined || !seen.Member && !before {
			continue
		}
		ids = append(ids, n.ID)
		if doubted {
			unproven = append(unproven, n.ID)
		}
	}
	return ids, unproven
}

// mayInitialize reports whether the owner is to make the cluster: there is none, and its machine
// has said so since it enrolled. A controller that only does not know of a cluster, such as
// after a restore, has none made.
func (o *Output) mayInitialize(in Input, owner *Node) bool {
	if owner == nil || len(o.CarriedOver.Members) > 0 || in.Nodes[owner.ID].Anew {
		return false
	}
	return in.Nodes[owner.ID].NotJoined || in.CarriedOver.Initialize && in.CarriedOver.Owner == owner.ID
}

// owner chooses the master that speaks for the cluster: the one before while it is
// heard of, else the first that is, and the first of all while none is. The result is
// nil if there is no master.
func (o *Output) owner(in Input) *Node {
	var first, heard, before *Node
	for i := range o.Nodes { // ordered by id
		n := &o.Nodes[i]
		if n.Role != api.RoleMaster || !o.maySpeak(in, n) {
			continue
		}
		first = cmp.Or(first, n)
		if in.Nodes[n.ID].Heard {
			heard = cmp.Or(heard, n)
		}
		if n.ID == in.CarriedOver.Owner {
			before = n
		}
	}
	if before != nil && (in.Nodes[before.ID].Heard || heard == nil || o.mayBegin(in, before)) {
		return before
	}
	return cmp.Or(heard, first)
}

// maySpeak reports whether the master is a member of the cluster and stays one, or there is no
// member yet.
func (o *Output) maySpeak(in Input, n *Node) bool {
	return len(o.CarriedOver.Members) == 0 || slices.Contains(o.CarriedOver.Members, n.ID) && !in.leaves(n.ID)
}

// mayBegin reports whether the owner may be making the cluster at this moment: it has had the
// chance to say that there is none, and to read that it is to. However silent it is, no other master is told the same, or
// there would be two clusters.
func (o *Output) mayBegin(in Input, owner *Node) bool {
	return in.Params.ClusterMembers() != nil && len(o.CarriedOver.Members) == 0 && in.Nodes[owner.ID].Enrolled
}
