package stack

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/shared/api"
)

// stackOf is a state with these resources, and a server, port or volume for each that
// has a physical id.
func stackOf(resources ...openstack.Resource) *contents {
	s := &contents{stack: openstack.Stack{ID: "top"}, resources: resources,
		servers: map[string]openstack.Server{}, ports: map[string]openstack.Port{}, volumes: map[string]openstack.Volume{}}
	for _, r := range resources {
		switch r.Type {
		case typeServer:
			s.servers[r.PhysicalID] = openstack.Server{ID: r.PhysicalID, Name: "name of " + r.PhysicalID}
		case typePort:
			s.ports[r.PhysicalID] = openstack.Port{ID: r.PhysicalID}
		case typeVolume:
			s.volumes[r.PhysicalID] = openstack.Volume{ID: r.PhysicalID, SizeGiB: 1}
		}
	}
	return s
}

func resource(stack, name, kind, physical string) openstack.Resource {
	return openstack.Resource{StackID: stack, Name: name, Type: kind, PhysicalID: physical}
}

func TestTheAspectOfAServerIsTheOutermostGroupAroundIt(t *testing.T) {
	const group, others = "OS::Heat::AutoScalingGroup", "OS::Heat::ResourceGroup"
	for name, c := range map[string]struct {
		around []openstack.Resource
		want   string
		member string
	}{
		"in the top stack":          {nil, "", ""},
		"in a group":                {[]openstack.Resource{resource("top", "workers", group, "a"), resource("a", "0", "node.yaml", "in")}, "workers", "in"},
		"directly in a group":       {[]openstack.Resource{resource("top", "workers", others, "in")}, "workers", ""},
		"AWS":                       {[]openstack.Resource{resource("top", "workers", "AWS::AutoScaling::AutoScalingGroup", "in")}, "workers", ""},
		"InstanceGroup":             {[]openstack.Resource{resource("top", "workers", "OS::Heat::InstanceGroup", "in")}, "workers", ""},
		"a group of groups":         {[]openstack.Resource{resource("top", "racks", group, "a"), resource("a", "0", "rack.yaml", "b"), resource("b", "inner", others, "c"), resource("c", "1", "node.yaml", "in")}, "racks", "b"},
		"in a nested template only": {[]openstack.Resource{resource("top", "part", "part.yaml", "in")}, "", ""},
		"in a part of a member":     {[]openstack.Resource{resource("top", "workers", group, "a"), resource("a", "0", "node.yaml", "b"), resource("b", "part", "part.yaml", "in")}, "workers", "b"},
		"a group in such a one":     {[]openstack.Resource{resource("top", "part", "part.yaml", "a"), resource("a", "workers", group, "in")}, "workers", ""},
		"a stack that is unknown":   {[]openstack.Resource{resource("top", "workers", group, "a")}, "", ""},
		"round in a circle":         {[]openstack.Resource{resource("in", "one", "part.yaml", "a"), resource("a", "two", "part.yaml", "in")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := "in"
			if c.around == nil {
				in = "top"
			}
			got := stackOf(append(c.around, resource(in, "vm", typeServer, "s"))...).topology().Servers
			if len(got) != 1 || got[0].AspectID != c.want || got[0].MemberStackID != c.member || got[0].VduID != "vm" {
				t.Errorf("%+v, want the aspect %q and its member %q", got, c.want, c.member)
			}
		})
	}
}

func TestServerOfAPort(t *testing.T) {
	s := stackOf(
		resource("top", "vm", typeServer, "s1"),
		resource("nested", "vm", typeServer, "s2"),
		resource("top", "vip_CP", typePort, "loose"),
		resource("top", "foreign_CP", typePort, "foreign"),
		resource("top", "b_CP", typePort, "b"), resource("top", "a_CP", typePort, "a"),
		resource("nested", "waiting_CP", typePort, "waiting"),
		resource("nested", "twin_CP", typePort, "twin1"), resource("other", "twin_CP", typePort, "twin2"),
		resource("top", "gone_CP", typePort, "gone"), resource("top", "later_CP", typePort, ""),
	)
	delete(s.ports, "gone")
	delete(s.ports, "")
	at := func(id, device string, addresses ...string) {
		p := openstack.Port{ID: id, DeviceID: device}
		for _, a := range addresses {
			p.Addresses = append(p.Addresses, netip.MustParseAddr(a))
		}
		s.ports[id] = p
	}
	at("loose", "", "10.0.0.9")
	at("foreign", "a router", "10.0.0.1")
	at("a", "s1", "10.0.0.3", "10.0.0.2")
	at("b", "s1")
	at("twin1", "s2", "10.0.0.7")
	at("twin2", "s2", "10.0.0.6")
	s.floating = []openstack.FloatingIP{
		{Address: netip.MustParseAddr("203.0.113.20"), PortID: "a"}, {Address: netip.MustParseAddr("203.0.113.3"), PortID: "a"},
		{Address: netip.MustParseAddr("203.0.113.9")}}
	got := s.topology()
	points := func(i int) []api.ConnectionPoint { return got.Servers[i].ConnectionPoints }
	for _, c := range []struct {
		what string
		got  []api.ConnectionPoint
		want []api.ConnectionPoint
	}{
		{"the stack's", got.ConnectionPoints, []api.ConnectionPoint{{Name: "foreign_CP", Addresses: []string{"10.0.0.1"}}, {Name: "vip_CP", Addresses: []string{"10.0.0.9"}}}},
		{"of the first server, in Neutron's order", points(0), []api.ConnectionPoint{
			{Name: "a_CP", Addresses: []string{"10.0.0.3", "10.0.0.2"}, FloatingAddresses: []string{"203.0.113.3", "203.0.113.20"}}, {Name: "b_CP"}}},
		{"two of one name", points(1), []api.ConnectionPoint{{Name: "twin_CP", Addresses: []string{"10.0.0.7", "10.0.0.6"}}}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestWhichVolumesAndServersAreThere(t *testing.T) {
	s := stackOf(
		resource("top", "data", typeVolume, "v1"),
		resource("nested", "data", typeVolume, "v2"),
		resource("m1", "each", typeVolume, "v3"), resource("m2", "each", typeVolume, "v4"),
		resource("nested", "single", typeVolume, "v5"),
		resource("top", "gone", typeVolume, "v6"),
		resource("top", "vm", typeServer, "s1"), resource("top", "vm2", typeServer, "s2"), resource("top", "deleted", typeServer, "s3"),
	)
	delete(s.volumes, "v6")
	delete(s.servers, "s3")
	attach := func(id string, servers ...string) {
		v := s.volumes[id]
		v.AttachedTo = servers
		s.volumes[id] = v
	}
	attach("v1", "s2", "s1")
	attach("v3", "s1")
	attach("v5", "s1")
	got := s.topology()
	want := []api.TopologyVolume{{ResourceID: "data", ID: "v1", SizeBytes: 1 << 30}, {ResourceID: "single", ID: "v5", SizeBytes: 1 << 30}}
	if diff := cmp.Diff(want, got.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	servers := []api.Server{{ID: "s1", Name: "name of s1", VduID: "vm", VolumeIds: []string{"v1", "v5"}}, {ID: "s2", Name: "name of s2", VduID: "vm2", VolumeIds: []string{"v1"}}}
	if diff := cmp.Diff(servers, got.Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

// What stands in a member of a group is replaced with the member. A floating IP leads to its port.
func TestWhichMemberOfAGroupAPortAndAVolumeStandIn(t *testing.T) {
	const group = "OS::Heat::AutoScalingGroup"
	s := stackOf(
		resource("top", "servers", group, "a"), resource("a", "0", "node.yaml", "in"),
		resource("in", "vm", typeServer, "s1"), resource("in", "inner_CP", typePort, "p1"), resource("in", "inner", typeVolume, "v1"),
		resource("top", "outer_CP", typePort, "p2"), resource("top", "outer", typeVolume, "v2"),
		resource("top", "inner_FIP", typeFloating, "f1"), resource("in", "outer_FIP", typeFloating, "f2"),
	)
	for id := range s.ports {
		s.ports[id] = openstack.Port{ID: id, DeviceID: "s1"}
	}
	s.floating = []openstack.FloatingIP{{ID: "f1", PortID: "p1"}, {ID: "f2", PortID: "p2"}}
	found, got := s.topology(), map[string]string{}
	for _, p := range found.Servers[0].ConnectionPoints {
		got[p.Name] = p.MemberStackID
	}
	for _, v := range found.Volumes {
		got[v.ResourceID] = v.MemberStackID
	}
	want := map[string]string{"inner_CP": "in", "inner_FIP": "in", "inner": "in", "outer_CP": "", "outer_FIP": "", "outer": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
