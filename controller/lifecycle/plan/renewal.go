package plan

import (
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
)

// keepRenewal takes the turn to renew certificates back from a master that is done: its certificates
// are new and its control plane is healthy. A master that is lost loses it too: it may never come
// back, and the certificates of the others run out.
func (o *Output) keepRenewal(in Input) {
	seen := in.Nodes[o.CarriedOver.Renews]
	stays := slices.ContainsFunc(o.stayingMasters(in), func(n *Node) bool { return n.ID == o.CarriedOver.Renews })
	if !stays || !seen.Heard || !seen.RenewalDue && seen.Current {
		o.CarriedOver.Renews = ""
	}
}

// beginRenewal gives the turn to a master whose certificates are due, if no member is upgraded,
// which renews them too, and all other masters are healthy. One that is lost does not count as long
// as etcd has a quorum without it.
func (o *Output) beginRenewal(in Input) {
	if o.CarriedOver.Renews != "" || len(o.CarriedOver.Wave) > 0 {
		return
	}
	heard := slices.DeleteFunc(o.stayingMasters(in), func(n *Node) bool { return !in.Nodes[n.ID].Heard })
	if 2*len(heard) <= len(o.CarriedOver.Members) {
		return
	}
	for _, n := range heard { // ordered by id
		unhealthy := func(other *Node) bool { return other != n && !in.Nodes[other.ID].Current }
		if in.Nodes[n.ID].RenewalDue && !slices.ContainsFunc(heard, unhealthy) {
			o.CarriedOver.Renews = n.ID
			return
		}
	}
}

// stayingMasters are the masters that are members of the cluster and do not leave it, ordered by id.
func (o *Output) stayingMasters(in Input) (list []*Node) {
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Role == api.RoleMaster && slices.Contains(o.CarriedOver.Members, n.ID) && !in.leaves(n.ID) {
			list = append(list, n)
		}
	}
	return list
}
