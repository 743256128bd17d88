package stack

import (
	"cmp"
	"slices"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// filled is the topology of a request, completed with what the cloud reports. The request
// decides which servers there are, and a list in the request is not changed, except that
// floating IPs are added. Without a topology in the request it is what the cloud reports.
func (s *contents) filled(given *api.Topology) *api.Topology {
	cloud := s.topology()
	if given == nil {
		return cloud
	}
	t := topology.Normalize(given)
	t.StackID = cloud.StackID // if the request has the stack's name, its id
	if t.StackStatus == "" {
		t.StackStatus, t.StackStatusReason = cloud.StackStatus, cloud.StackStatusReason
	}
	t.Volumes = s.filledVolumes(t.Volumes, cloud.Volumes)
	t.ConnectionPoints = mergePoints(t.ConnectionPoints, cloud.ConnectionPoints)
	for i := range t.Servers {
		at := slices.IndexFunc(cloud.Servers, func(c api.Server) bool { return c.ID == t.Servers[i].ID })
		if at >= 0 {
			t.Servers[i] = s.mergeServer(t.Servers[i], cloud.Servers[at])
		}
		if len(t.Servers[i].VolumeIds) == 0 {
			t.Servers[i].VolumeIds = s.attached(t.Servers[i].ID, t.Volumes)
		}
	}
	return t
}

func (s *contents) mergeServer(given, cloud api.Server) api.Server {
	given.Name = cmp.Or(given.Name, cloud.Name)
	given.VduID = cmp.Or(given.VduID, cloud.VduID)
	given.AspectID = cmp.Or(given.AspectID, cloud.AspectID)
	given.MemberStackID = cmp.Or(given.MemberStackID, cloud.MemberStackID)
	given.AvailabilityZone = cmp.Or(given.AvailabilityZone, cloud.AvailabilityZone)
	given.HypervisorHostname = cmp.Or(given.HypervisorHostname, cloud.HypervisorHostname)
	given.ConnectionPoints = s.withFloating(mergePoints(given.ConnectionPoints, cloud.ConnectionPoints), cloud.ConnectionPoints)
	return given
}

// withFloating adds the floating IPs of a server: a VNFD has no connection points for them,
// so a list that is made from it lacks them.
func (s *contents) withFloating(given, cloud []api.ConnectionPoint) []api.ConnectionPoint {
	for _, p := range cloud {
		isFloating := slices.ContainsFunc(s.resources, func(r openstack.Resource) bool { return r.Type == typeFloating && r.Name == p.Name })
		if isFloating && !slices.ContainsFunc(given, func(g api.ConnectionPoint) bool { return g.Name == p.Name }) {
			given = append(given, p)
		}
	}
	return given
}

func mergePoints(given, cloud []api.ConnectionPoint) []api.ConnectionPoint {
	if len(given) == 0 {
		return cloud
	}
	for i, p := range given {
		at := slices.IndexFunc(cloud, func(c api.ConnectionPoint) bool { return c.Name == p.Name })
		if at < 0 {
			continue
		}
		if len(p.Addresses) == 0 {
			given[i].Addresses = cloud[at].Addresses
		}
		if len(p.FloatingAddresses) == 0 {
			given[i].FloatingAddresses = cloud[at].FloatingAddresses
		}
		given[i].MemberStackID = cmp.Or(p.MemberStackID, cloud[at].MemberStackID)
	}
	return given
}

// filledVolumes fills in sizes, also of volumes that the project has and the stack does
// not name.
func (s *contents) filledVolumes(given, cloud []api.TopologyVolume) []api.TopologyVolume {
	if len(given) == 0 {
		return cloud
	}
	for i, v := range given {
		if v.SizeBytes == 0 {
			given[i].SizeBytes = s.volumes[v.ID].SizeGiB << 30
		}
		at := slices.IndexFunc(cloud, func(c api.TopologyVolume) bool { return c.ID == v.ID })
		if at >= 0 {
			given[i].MemberStackID = cmp.Or(v.MemberStackID, cloud[at].MemberStackID)
		}
	}
	return given
}
