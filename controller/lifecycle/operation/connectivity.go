package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

func pointNames(points []api.ConnectionPoint) []string {
	var names []string
	for _, p := range points {
		names = append(names, p.Name)
	}
	return names
}

// checkConnectionPoints wants to know every connection point that the request names.
func (k *known) checkConnectionPoints(r api.OperationRequest) fault.List {
	var faults fault.List
	for i, name := range r.ConnectionPointNames {
		if slices.Contains(k.points, name) {
			continue
		}
		names := slices.Compact(slices.Sorted(slices.Values(k.points)))
		faults = append(faults, fault.Root.Key("connectionPointNames").Index(i).Fault(fmt.Sprintf(
			"%q is no connection point of this instance; expected one of %s", name, strings.Join(names, ", "))))
	}
	return faults
}

// changesAny reports whether the CHANGE_EXT_CONN concerns one of these connection points.
func changesAny(r api.OperationRequest, names []string) bool {
	return len(r.ConnectionPointNames) == 0 ||
		slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.ConnectionPointNames, name) })
}

// changesConnectionOf reports whether the CHANGE_EXT_CONN concerns the server, as the
// topology has it after the operation.
func (p *postRequest) changesConnectionOf(serverID string) bool {
	return slices.ContainsFunc(p.next.Topology.Servers, func(s api.Server) bool {
		return s.ID == serverID && changesAny(p.r, pointNames(s.ConnectionPoints))
	})
}

// changesStorageAddress reports whether the CHANGE_EXT_CONN concerns a connection point of
// the storage server, or one of the stack that PersistentVolumes point to.
func (p *postRequest) changesStorageAddress() bool {
	var names []string
	for _, s := range p.known.servers {
		if p.known.roles[s.ID] == api.RoleStorage {
			names = append(names, pointNames(s.ConnectionPoints)...)
		}
	}
	if names == nil { // there is no storage server
		return false
	}
	for _, pv := range p.before.Params.Cluster.PersistentVolumes {
		names = append(names, pv.NFSServerCP)
	}
	return changesAny(p.r, names)
}
