package reconcile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// BoundVolumes are the PersistentVolumes that the masters among the nodes have reported as bound.
// What none has reported is not known and holds nothing up.
func BoundVolumes(t *tx.Tx, nodes []plan.Node) (bound []api.BoundPersistentVolume, err error) {
	for _, planned := range nodes {
		if planned.Role != api.RoleMaster {
			continue
		}
		n, found, err := t.Nodes().Get(planned.ID)
		if err != nil {
			return nil, err
		}
		if found && n.InstanceID == t.Instance.ID {
			bound = append(bound, progress.Bound(n, t.Store.Epoch())...)
		}
	}
	return bound, nil
}

// Find is the PersistentVolume of that name, nil for none.
func Find(volumes []plan.PersistentVolume, name string) *plan.PersistentVolume {
	i := slices.IndexFunc(volumes, func(v plan.PersistentVolume) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &volumes[i]
}

// SameServer compares addresses in any notation: a volume keeps the one that it was made with.
func SameServer(a, b string) bool {
	x, errX := netip.ParseAddr(strings.Trim(a, "[]"))
	y, errY := netip.ParseAddr(strings.Trim(b, "[]"))
	if errX != nil || errY != nil {
		return a == b
	}
	return x.Unmap() == y.Unmap()
}
