package topology

import (
	"net/netip"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Normalize is a copy of a valid topology in which one thing is written one way:
// ids in lower case, addresses in their shortest form. The order of its lists is
// kept. What is made of a topology depends on it in one place: of the addresses of
// nfs_server_cp the first is the one that PersistentVolumes point to.
func Normalize(t *api.Topology) *api.Topology {
	if t == nil {
		return nil
	}
	n := *t
	n.ConnectionPoints = normalPoints(t.ConnectionPoints)
	n.Servers = make([]api.Server, len(t.Servers))
	for i, s := range t.Servers {
		s.ID, s.MemberStackID = strings.ToLower(s.ID), strings.ToLower(s.MemberStackID)
		s.ConnectionPoints = normalPoints(s.ConnectionPoints)
		s.VolumeIds = mapped(s.VolumeIds, strings.ToLower)
		n.Servers[i] = s
	}
	n.Volumes = mapped(t.Volumes, func(v api.TopologyVolume) api.TopologyVolume {
		v.ID, v.MemberStackID = strings.ToLower(v.ID), strings.ToLower(v.MemberStackID)
		return v
	})
	return &n
}

func normalPoints(points []api.ConnectionPoint) []api.ConnectionPoint {
	return mapped(points, func(p api.ConnectionPoint) api.ConnectionPoint {
		p.Addresses = mapped(p.Addresses, normalAddress)
		p.FloatingAddresses = mapped(p.FloatingAddresses, normalAddress)
		p.MemberStackID = strings.ToLower(p.MemberStackID)
		return p
	})
}

func normalAddress(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String()
	}
	return s
}

// mapped is f of each element, nil for an empty list, so that "absent" and
// "empty" compare as equal.
func mapped[T any](list []T, f func(T) T) []T {
	if len(list) == 0 {
		return nil
	}
	out := make([]T, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}
