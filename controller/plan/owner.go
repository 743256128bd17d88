package plan

import (
	"cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

// owner chooses the master that speaks for the cluster: the one before while it is
// heard of, else the first that is, and the first of all while none is. The result is
// nil if there is no master.
func (o *Output) owner(in Input) *Node {
	var first, heard, before *Node
	for i := range o.Nodes { // ordered by id
		n := &o.Nodes[i]
		if n.Role != api.RoleMaster {
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
	if before != nil && (in.Nodes[before.ID].Heard || heard == nil) {
		return before
	}
	return cmp.Or(heard, first)
}
