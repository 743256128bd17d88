package topology

import (
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// merge is what a request gives, with what it leaves out as the cloud has it. The
// request says which servers there are; a list that it gives is that list. Without one
// it is what the cloud has.
func merge(given, cloud *api.Topology) *api.Topology {
	if given == nil {
		return cloud
	}
	t := Normalize(given)
	t.StackID = cloud.StackID // where the request has the stack's name, its id
	if t.StackStatus == "" {
		t.StackStatus, t.StackStatusReason = cloud.StackStatus, cloud.StackStatusReason
	}
	t.Volumes = mergeVolumes(t.Volumes, cloud.Volumes)
	t.ConnectionPoints = mergePoints(t.ConnectionPoints, cloud.ConnectionPoints)
	for i := range t.Servers {
		at := slices.IndexFunc(cloud.Servers, func(s api.Server) bool { return strings.EqualFold(s.ID, t.Servers[i].ID) })
		if at >= 0 {
			t.Servers[i] = mergeServer(t.Servers[i], cloud.Servers[at], t.Volumes)
		}
	}
	return t
}

func mergeServer(given, cloud api.Server, volumes []api.TopologyVolume) api.Server {
	given.Name = either(given.Name, cloud.Name)
	given.VduID = either(given.VduID, cloud.VduID)
	given.AspectID = either(given.AspectID, cloud.AspectID)
	given.AvailabilityZone = either(given.AvailabilityZone, cloud.AvailabilityZone)
	given.Hypervisor = either(given.Hypervisor, cloud.Hypervisor)
	given.ConnectionPoints = mergePoints(given.ConnectionPoints, cloud.ConnectionPoints)
	if len(given.VolumeIds) == 0 {
		for _, id := range cloud.VolumeIds {
			if slices.ContainsFunc(volumes, func(v api.TopologyVolume) bool { return strings.EqualFold(v.ID, id) }) {
				given.VolumeIds = append(given.VolumeIds, id)
			}
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
	}
	return given
}

func mergeVolumes(given, cloud []api.TopologyVolume) []api.TopologyVolume {
	if len(given) == 0 {
		return cloud
	}
	for i, v := range given {
		at := slices.IndexFunc(cloud, func(c api.TopologyVolume) bool { return strings.EqualFold(c.ID, v.ID) })
		if at >= 0 && v.SizeBytes == 0 {
			given[i].SizeBytes = cloud[at].SizeBytes
		}
	}
	return given
}

func either(given, cloud string) string {
	if given != "" {
		return given
	}
	return cloud
}
