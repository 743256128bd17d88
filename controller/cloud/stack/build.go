package stack

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/shared/api"
)

// topology is what the state means, in an order that depends on nothing else: servers by
// name and id, the rest by name. What Heat knows and the service does not have (any
// more, or yet) is left out.
func (s *contents) topology() *api.Topology {
	t := &api.Topology{
		StackID: s.stack.ID, StackStatus: s.stack.Status, StackStatusReason: s.stack.StatusReason,
		Servers: []api.Server{},
	}
	places := s.places()
	t.Volumes = s.volumeList(places)
	points, loose := s.points(places)
	t.ConnectionPoints = loose
	for _, r := range s.resources {
		known, ok := s.servers[r.PhysicalID]
		if r.Type != typeServer || !ok {
			continue
		}
		t.Servers = append(t.Servers, api.Server{
			ID: known.ID, Name: known.Name, VduID: r.Name, AspectID: places[r.StackID].aspect, MemberStackID: places[r.StackID].member,
			ConnectionPoints: points[known.ID], VolumeIds: s.attached(known.ID, t.Volumes),
			AvailabilityZone: known.AvailabilityZone, HypervisorHostname: known.Hypervisor,
		})
	}
	slices.SortFunc(t.Servers, func(a, b api.Server) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return t
}

// place is where a stack stands: the name of the outermost group around it, and which member
// of that group, a nested stack, it is or is in. Both are "" for a stack in no group; a server
// that is a member itself is in no such stack.
type place struct{ aspect, member string }

// places is the place of each stack by its id.
func (s *contents) places() map[string]place {
	// A nested stack is the physical resource of what contains it.
	container := make(map[string]openstack.Resource, len(s.resources))
	for _, r := range s.resources {
		if r.PhysicalID != "" {
			container[r.PhysicalID] = r
		}
	}
	out := map[string]place{}
	for _, r := range s.resources {
		if _, done := out[r.StackID]; done {
			continue
		}
		var outermost place
		below, at := "", r.StackID
		for range len(s.resources) { // a bound, should Heat's answer go round in a circle
			around, ok := container[at]
			if !ok {
				break
			}
			if groups[around.Type] {
				outermost = place{aspect: around.Name, member: below}
			}
			below, at = at, around.StackID
		}
		out[r.StackID] = outermost
	}
	return out
}

// points are the connection points of each server by its id, and those of the stack:
// ports of the top stack that no server of it has, such as a virtual IP. A port of a
// nested stack that Nova has not given to its server yet is neither. A floating IP is a
// connection point of the server that has its port: Tacker's sample templates name it in
// ssh_cp_name.
func (s *contents) points(places map[string]place) (map[string][]api.ConnectionPoint, []api.ConnectionPoint) {
	mine := map[string]bool{}
	for _, r := range s.resources {
		if r.Type == typeServer && r.PhysicalID != "" {
			mine[r.PhysicalID] = true
		}
	}
	of := map[string][]api.ConnectionPoint{}
	var loose []api.ConnectionPoint
	for _, r := range s.pointResources() {
		point, deviceID := s.point(r)
		point.MemberStackID = places[s.portOf(r).StackID].member
		switch {
		case mine[deviceID]:
			of[deviceID] = addPoint(of[deviceID], point)
		case r.StackID == s.stack.ID:
			loose = addPoint(loose, point)
		}
	}
	return of, loose
}

// pointResources are the ports and the floating IPs that exist, by name and id. A floating
// IP that no port has is no point.
func (s *contents) pointResources() []openstack.Resource {
	var list []openstack.Resource
	for _, r := range s.resources {
		_, isPort := s.ports[r.PhysicalID]
		if isPort && r.Type == typePort || r.Type == typeFloating && s.floatingIP(r).PortID != "" {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b openstack.Resource) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.PhysicalID, b.PhysicalID))
	})
	return list
}

// point is a port or a floating IP as a connection point, and the id of the server that has
// it. The address of a floating IP is the fixed one that it stands for: the VNF's own network
// leads there.
func (s *contents) point(r openstack.Resource) (p api.ConnectionPoint, deviceID string) {
	if r.Type == typeFloating {
		f := s.floatingIP(r)
		p = api.ConnectionPoint{Name: r.Name, FloatingAddresses: []string{f.Address.String()}}
		if f.Fixed.IsValid() {
			p.Addresses = []string{f.Fixed.String()}
		}
		return p, s.ports[f.PortID].DeviceID
	}
	port := s.ports[r.PhysicalID]
	return api.ConnectionPoint{Name: r.Name, Addresses: texts(port.Addresses), FloatingAddresses: s.floatingOf(port.ID)}, port.DeviceID
}

// portOf is the port that the address of a connection point belongs to, as a resource: that of
// a floating IP, or else what makes the connection point.
func (s *contents) portOf(r openstack.Resource) openstack.Resource {
	id := s.floatingIP(r).PortID
	if i := slices.IndexFunc(s.resources, func(o openstack.Resource) bool { return o.Type == typePort && o.PhysicalID == id && id != "" }); i >= 0 {
		return s.resources[i]
	}
	return r
}

// floatingIP is the one that a resource made, zero if there is none.
func (s *contents) floatingIP(r openstack.Resource) openstack.FloatingIP {
	i := slices.IndexFunc(s.floating, func(f openstack.FloatingIP) bool { return f.ID == r.PhysicalID && f.ID != "" })
	if i < 0 {
		return openstack.FloatingIP{}
	}
	return s.floating[i]
}

// addPoint adds a point. Two ports of one name on one server are one point with the
// addresses of both: a name is there once.
func addPoint(list []api.ConnectionPoint, p api.ConnectionPoint) []api.ConnectionPoint {
	if n := len(list); n > 0 && list[n-1].Name == p.Name {
		list[n-1].Addresses = append(list[n-1].Addresses, p.Addresses...)
		list[n-1].FloatingAddresses = append(list[n-1].FloatingAddresses, p.FloatingAddresses...)
		return list
	}
	return append(list, p)
}

func (s *contents) floatingOf(portID string) []string {
	var list []netip.Addr
	for _, f := range s.floating {
		if f.PortID == portID {
			list = append(list, f.Address)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return texts(list)
}

func texts(addresses []netip.Addr) []string {
	var list []string
	for _, a := range addresses {
		list = append(list, a.String())
	}
	return list
}

// volumeList is the volumes that a name means one of: those of the top stack, and those
// of nested stacks whose name is there once.
func (s *contents) volumeList(places map[string]place) []api.TopologyVolume {
	named := map[string][]openstack.Resource{}
	for _, r := range s.resources {
		if _, ok := s.volumes[r.PhysicalID]; ok && r.Type == typeVolume {
			named[r.Name] = append(named[r.Name], r)
		}
	}
	var list []api.TopologyVolume
	for name, all := range named {
		one := slices.IndexFunc(all, func(r openstack.Resource) bool { return r.StackID == s.stack.ID })
		if one < 0 && len(all) > 1 {
			continue
		}
		r := all[max(one, 0)]
		v := s.volumes[r.PhysicalID]
		list = append(list, api.TopologyVolume{ResourceID: name, ID: v.ID, SizeBytes: v.SizeGiB << 30, MemberStackID: places[r.StackID].member})
	}
	slices.SortFunc(list, func(a, b api.TopologyVolume) int { return cmp.Compare(a.ResourceID, b.ResourceID) })
	return list
}

// attached are the topology's volumes that Cinder says the server has.
func (s *contents) attached(serverID string, volumes []api.TopologyVolume) []string {
	var ids []string
	for _, v := range volumes {
		if slices.Contains(s.volumes[v.ID].AttachedTo, serverID) {
			ids = append(ids, v.ID)
		}
	}
	return ids
}
