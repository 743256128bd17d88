package plan

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

const hash = "sha256:0b5e"

// membersInput is a cluster of one master and one worker, both enrolled, whose parameters have
// cluster_members. No machine is a member yet.
func membersInput() Input {
	in := withWorker()
	in.Params.Cluster.StorageServer = nil
	in.Params.Cluster.Master.ClusterCPName = "masterNode_CP1"
	in.Params.Cluster.Members = &params.ClusterMembers{EndpointPort: 6443, Access: params.AccessTacker}
	in.Topology.Servers = in.Topology.Servers[1:]
	in.Topology.Servers[0].ConnectionPoints[0].Addresses = []string{"10.10.0.11", "10.10.0.10"}
	in.Topology.Servers[1].ConnectionPoints[0].Addresses = []string{"10.10.0.20"}
	in.Cluster.Secret = []byte("secret")
	in.Nodes = map[string]Observed{masterID: {Enrolled: true, Heard: true, NotJoined: true}}
	return in
}

// joined is the input after these masters have become members.
func joined(in Input, masters ...string) Input {
	for _, id := range masters {
		in.Nodes[id] = Observed{Enrolled: true, Heard: true, Member: true}
	}
	in.CarriedOver = Make(in).CarriedOver
	in.Cluster.CACertificateHash = hash
	return in
}

// withMaster adds a master that has enrolled, and joined nothing.
func withMaster(in Input, id, address string) Input {
	in.Topology.Servers = append(in.Topology.Servers, api.Server{ID: id, Name: "another", ConnectionPoints: []api.ConnectionPoint{{Name: "masterNode_CP1", Addresses: []string{address}}}})
	in.Nodes[id] = Observed{Enrolled: true, Heard: true, NotJoined: true}
	return in
}

func TestServersGetWhatTheyJoinWith(t *testing.T) {
	in := membersInput()
	in.Params.Cluster.Master.PodCIDR, in.Params.Cluster.Master.ClusterCIDR = in.Params.Cluster.Proxy.NodeCIDR, in.Params.Cluster.Proxy.NodeCIDR
	out := Make(in)
	master, worker := node(t, out, masterID).Config.Cluster, node(t, out, workerID).Config.Cluster
	want := api.ClusterSection{Endpoint: "10.10.0.11:6443", PodCIDR: "10.10.0.0/24", ServiceCIDR: "10.10.0.0/24",
		Masters:        []api.ClusterServer{{ServerID: masterID, Name: "master", Addresses: []string{"10.10.0.10", "10.10.0.11"}}},
		BootstrapToken: bootstrapToken([]byte("secret"), workerID)}
	if diff := cmp.Diff(&want, worker); diff != "" {
		t.Errorf("the worker's section (-want +got):\n%s", diff)
	}
	want.Initialize, want.BootstrapToken = true, bootstrapToken([]byte("secret"), masterID)
	want.CertificateKey = certificateKey([]byte("secret"), want.Masters)
	if diff := cmp.Diff(&want, master); diff != "" {
		t.Errorf("the master's section (-want +got):\n%s", diff)
	}
}

func TestWithoutClusterMembersNobodyGetsAnythingOfIt(t *testing.T) {
	in := joined(membersInput(), masterID)
	in.Params.Cluster.Members = nil
	out := Make(in)
	for _, n := range out.Nodes {
		if c := n.Config; c.Cluster != nil || c.ClusterMembers != nil || c.ClusterAccess != nil || len(n.Withheld) > 0 {
			t.Errorf("%s has %+v, withheld %+v", n.Name, c, n.Withheld)
		}
	}
	if !slices.Equal(out.CarriedOver.Members, []string{masterID}) {
		t.Errorf("the members %v are forgotten: asked for again, the cluster would be made again", out.CarriedOver.Members)
	}
}

// The one that makes the cluster is the only one that can speak for it; until it is a member,
// nobody does.
func TestTheMasterThatMakesTheClusterSpeaksForItOnceItIsAMember(t *testing.T) {
	in := withMaster(membersInput(), secondM, "10.10.0.12")
	out := Make(in)
	n := node(t, out, masterID)
	if n.Config.ClusterMembers != nil || n.Config.ClusterAccess != nil || n.Config.ClusterDepartures != nil || len(n.Withheld) != 3 {
		t.Fatalf("the document has %v, withheld %+v", n.Config.Sections(), n.Withheld)
	}
	for _, w := range n.Withheld {
		if w.Reason != api.ReasonNotJoined || w.WaitsFor != masterID || !strings.Contains(w.Message, masterID) {
			t.Errorf("withheld %+v, want it to wait for the master itself", w)
		}
	}
	in = joined(in, masterID)
	out = Make(in)
	n = node(t, out, masterID)
	if c := n.Config.Cluster; c.Initialize || c.CACertificateHash != hash || len(n.Withheld) > 0 {
		t.Errorf("a member's section is %+v, withheld %+v", c, n.Withheld)
	}
	want := []api.ClusterMember{
		{ServerID: masterID, Name: "master", Role: api.RoleMaster, Addresses: []string{"10.10.0.10", "10.10.0.11"}, BootstrapToken: n.Config.Cluster.BootstrapToken},
		{ServerID: secondM, Name: "another", Role: api.RoleMaster, Addresses: []string{"10.10.0.12"}, BootstrapToken: node(t, out, secondM).Config.Cluster.BootstrapToken},
		{ServerID: workerID, Name: "worker", Role: api.RoleWorker, Addresses: []string{"10.10.0.20"}, BootstrapToken: node(t, out, workerID).Config.Cluster.BootstrapToken},
	}
	if diff := cmp.Diff(want, n.Config.ClusterMembers.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if n.Config.ClusterAccess.Role != api.ClusterAccessTacker {
		t.Errorf("access %+v", n.Config.ClusterAccess)
	}
	if s := n.Config.ClusterDepartures; s == nil || s.Members == nil || len(s.Members) > 0 {
		t.Errorf("departures %+v, want an empty list", s)
	}
	if other := node(t, out, secondM).Config; other.ClusterMembers != nil || other.ClusterDepartures != nil || other.ClusterAccess != nil || other.Cluster.CACertificateHash != hash {
		t.Errorf("the other master has %+v", other)
	}
}

// Whoever leaves is listed for the owner to let go, has no token that is valid, and does not
// speak for the cluster.
func TestServersThatLeaveTheCluster(t *testing.T) {
	three := func() Input {
		in := joined(withMaster(membersInput(), secondM, "10.10.0.12"), masterID, secondM)
		in.CarriedOver.Owner = masterID
		return in
	}
	for name, c := range map[string]struct {
		leaving      []string
		owner        string
		listed, stay int
	}{
		"nobody": {nil, masterID, 0, 3}, "a worker": {[]string{workerID}, masterID, 1, 2}, "a master": {[]string{secondM}, masterID, 1, 2},
		"the owner": {[]string{masterID}, secondM, 1, 2}, "the owner and a worker": {[]string{masterID, workerID}, secondM, 2, 1},
		"one that the topology does not have": {[]string{volumeID}, masterID, 0, 3},
		"every master":                        {[]string{masterID, secondM}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := three()
			in.Leaving, in.Force = c.leaving, len(c.leaving) > 0
			in.Params.Cluster.Members.DeleteUnmanagedPods = true
			out := Make(in)
			if out.CarriedOver.Owner != c.owner {
				t.Fatalf("%q speaks for the cluster, want %q", out.CarriedOver.Owner, c.owner)
			}
			for _, n := range out.Nodes {
				s, m := n.Config.ClusterDepartures, n.Config.ClusterMembers
				if n.ID != c.owner && (s != nil || m != nil || n.Config.Cluster != nil && n.Config.Cluster.Initialize) {
					t.Errorf("%s has %+v", n.ID, n.Config)
				}
				if n.ID != c.owner {
					continue
				}
				if len(s.Members) != c.listed || len(m.Members) != c.stay || s.Force != in.Force || !s.DeleteUnmanagedPods {
					t.Errorf("the owner is asked for %+v, and its members are %+v", s, m)
				}
				for _, each := range s.Members {
					if other := node(t, out, each.ServerID); !slices.Contains(c.leaving, each.ServerID) || each.Name != other.Name || !slices.Equal(each.Addresses, other.Addresses) {
						t.Errorf("%+v is listed for %+v", each, other)
					}
				}
			}
		})
	}
	t.Run("while there is no cluster", func(t *testing.T) {
		in := withMaster(membersInput(), secondM, "10.10.0.12")
		in.CarriedOver.Owner, in.Leaving = masterID, []string{masterID}
		if out := Make(in); out.CarriedOver.Owner != masterID || node(t, out, secondM).Config.Cluster.Initialize {
			t.Errorf("another master makes the cluster too: %+v", out.CarriedOver)
		}
	})
}

func TestOneMasterMakesTheClusterHoweverSilent(t *testing.T) {
	joinedNothing, member := Observed{Enrolled: true, Heard: true, NotJoined: true}, Observed{Enrolled: true, Heard: true, Member: true}
	for name, c := range map[string]struct {
		first, second Observed
		told          bool
		want          string
	}{
		"both are heard of":                       {joinedNothing, joinedNothing, false, masterID},
		"it has not said that there is none":      {Observed{Enrolled: true, Heard: true}, joinedNothing, false, ""},
		"it fell silent before it said so":        {Observed{Enrolled: true}, joinedNothing, false, ""},
		"it fell silent: it may be in the middle": {Observed{Enrolled: true}, joinedNothing, true, masterID},
		"another machine may have its place":      {Observed{Enrolled: true, Heard: true, Anew: true}, joinedNothing, true, ""},
		"it never came":                           {Observed{}, joinedNothing, false, secondM},
		"nobody came":                             {Observed{}, Observed{}, false, ""},
		"the other one is a member":               {joinedNothing, member, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := withMaster(membersInput(), secondM, "10.10.0.12")
			in.CarriedOver.Owner, in.CarriedOver.Initialize = masterID, c.told
			in.Nodes = map[string]Observed{masterID: c.first, secondM: c.second}
			got := ""
			for _, n := range Make(in).Nodes {
				if n.Config.Cluster.Initialize {
					got += n.ID
				}
			}
			if got != c.want {
				t.Errorf("%q makes the cluster, want %q", got, c.want)
			}
		})
	}
}

// A cluster that exists is never made again, whichever of its masters is away.
func TestAMemberSpeaksForTheCluster(t *testing.T) {
	in := joined(withMaster(membersInput(), secondM, "10.10.0.12"), masterID)
	in.Nodes[masterID] = Observed{Enrolled: true}
	if out := Make(in); out.CarriedOver.Owner != masterID || node(t, out, secondM).Config.Cluster.Initialize {
		t.Errorf("%+v is carried over, and the other master, which never joined, has %+v", out.CarriedOver, node(t, out, secondM).Config.Cluster)
	}
	in.Nodes[secondM] = Observed{Enrolled: true, Heard: true, Member: true}
	out := Make(in)
	if out.CarriedOver.Owner != secondM || node(t, out, secondM).Config.ClusterMembers == nil || node(t, out, masterID).Config.ClusterMembers != nil {
		t.Errorf("%+v is carried over once the other one is a member", out.CarriedOver)
	}
	in.CarriedOver = out.CarriedOver
	in.Topology.Servers = slices.DeleteFunc(in.Topology.Servers, func(s api.Server) bool { return s.ID == masterID })
	if out = Make(in); !slices.Equal(out.CarriedOver.Members, []string{secondM}) {
		t.Errorf("members %v once the first one has left", out.CarriedOver.Members)
	}
}

// A machine that enrolled anew may be the member of before, or another one in its place: it says
// which. Until then nobody is told to make the cluster that it may have.
func TestAMachineThatEnrolledAnewSaysWhetherItIsAMember(t *testing.T) {
	in := joined(membersInput(), masterID)
	before := node(t, Make(in), masterID).Config.Digest()
	in.Nodes[masterID] = Observed{Enrolled: true, Heard: true, Anew: true}
	out := Make(in)
	if now := node(t, out, masterID).Config.Digest(); now != before {
		t.Errorf("before it has said anything its document changes: %+v", node(t, out, masterID).Config.Cluster)
	}
	in.CarriedOver = out.CarriedOver
	for name, c := range map[string]struct {
		says    Observed
		member  bool
		settled bool
	}{
		"it is":                            {Observed{Enrolled: true, Heard: true, Member: true}, true, true},
		"it has joined nothing":            {Observed{Enrolled: true, Heard: true, NotJoined: true}, false, true},
		"it does not know: its API is off": {Observed{Enrolled: true, Heard: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			in.Nodes = map[string]Observed{masterID: c.says}
			out := Make(in)
			cluster := node(t, out, masterID).Config.Cluster
			if is := len(out.CarriedOver.Members) > 0; is != c.member || cluster.Initialize == c.member || (cluster.CACertificateHash != "") != c.member {
				t.Errorf("%+v is carried over, and the only master has %+v", out.CarriedOver, cluster)
			}
			if len(out.CarriedOver.Unproven) > 0 == c.settled {
				t.Errorf("%v are unproven", out.CarriedOver.Unproven)
			}
		})
	}
	in.CarriedOver.Unproven, in.Nodes[masterID] = nil, Observed{Enrolled: true, Heard: true, NotJoined: true}
	if out := Make(in); len(out.CarriedOver.Members) != 1 {
		t.Error("a member whose Node was deleted ends the cluster")
	}
}

func TestSecretsOfMembers(t *testing.T) {
	in := joined(withMaster(membersInput(), secondM, "10.10.0.12"), masterID)
	format, seen := regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`), map[string]string{}
	for range 2 {
		for _, n := range Make(in).Nodes {
			token := n.Config.Cluster.BootstrapToken
			if !format.MatchString(token) || seen[token] != "" && seen[token] != n.ID {
				t.Errorf("%s has the token %q, which is of %q", n.ID, token, seen[token])
			}
			seen[token] = n.ID
		}
	}
	if len(seen) != 3 {
		t.Errorf("tokens %v of three servers: they must not change", seen)
	}
	key := node(t, Make(in), masterID).Config.Cluster.CertificateKey
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(key) || key != node(t, Make(in), secondM).Config.Cluster.CertificateKey {
		t.Errorf("the first master has the certificate key %q, and the second another one", key)
	}
	grown := withMaster(in, "44444444-6977-49ff-83ac-7756572ed186", "10.10.0.13")
	if now := node(t, Make(grown), masterID).Config.Cluster.CertificateKey; now == key {
		t.Error("the certificate key stays when a master comes")
	}
	in.Cluster.Secret = []byte("another")
	for _, n := range Make(in).Nodes {
		if c := n.Config.Cluster; seen[c.BootstrapToken] != "" || c.CertificateKey == key {
			t.Errorf("%s of another cluster has a secret of this one: %+v", n.ID, c)
		}
	}
}

func TestTheEndpoint(t *testing.T) {
	vip := func(addresses, floating []string) func(*Input) {
		return func(in *Input) {
			in.Params.Cluster.Master.ClusterCPName, in.Params.Cluster.Master.ClusterFIPName = "vip_CP", "vip_FIP"
			in.Topology.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: addresses}, {Name: "vip_FIP", Addresses: addresses, FloatingAddresses: floating}}
		}
	}
	for name, c := range map[string]struct {
		change           func(*Input)
		inside, external string
		outside          string
	}{
		"of the master":                  {func(*Input) {}, "10.10.0.11:6443", "", "10.10.0.11:6443"},
		"at another port":                {func(in *Input) { in.Params.Cluster.Members.EndpointPort = 443 }, "10.10.0.11:443", "", "10.10.0.11:443"},
		"of the stack itself":            {vip([]string{"10.10.0.9"}, nil), "10.10.0.9:6443", "", "10.10.0.9:6443"},
		"an IPv6 address":                {vip([]string{"2001:db8::9"}, nil), "[2001:db8::9]:6443", "", "[2001:db8::9]:6443"},
		"with a floating address":        {vip([]string{"10.10.0.9"}, []string{"203.0.113.9"}), "10.10.0.9:6443", "203.0.113.9", "203.0.113.9:6443"},
		"with the master's floating one": {func(in *Input) { floatingMaster(in) }, "10.10.0.11:6443", "203.0.113.11", "203.0.113.11:6443"},
		"the one before, of another master": {func(in *Input) {
			*in = withMaster(*in, secondM, "10.10.0.12")
			in.CarriedOver.Endpoint = "10.10.0.12"
		}, "10.10.0.12:6443", "", "10.10.0.12:6443"},
		"of the owner": {func(in *Input) {
			*in = withMaster(*in, secondM, "10.10.0.12")
			in.Nodes[masterID] = Observed{}
		}, "10.10.0.12:6443", "", "10.10.0.12:6443"},
		"not the one before, which is gone": {func(in *Input) { in.CarriedOver.Endpoint = "10.10.0.99" }, "10.10.0.11:6443", "", "10.10.0.11:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			in := membersInput()
			c.change(&in)
			out := Make(in)
			if section := node(t, out, masterID).Config.Cluster; section.Endpoint != c.inside || section.ExternalAddress != c.external {
				t.Errorf("the master's section is %+v, want the endpoint %s and outside %q", section, c.inside, c.external)
			}
			if section := node(t, out, workerID).Config.Cluster; section.Endpoint != c.inside || section.ExternalAddress != "" {
				t.Errorf("the worker's section is %+v", section)
			}
			if out.Endpoint != c.outside {
				t.Errorf("from outside it is %q, want %q", out.Endpoint, c.outside)
			}
			in.CarriedOver = out.CarriedOver
			if diff := cmp.Diff(out, Make(in)); diff != "" {
				t.Errorf("the next plan is another one (-before +after):\n%s", diff)
			}
		})
	}
}

func floatingMaster(in *Input) {
	in.Params.Cluster.Master.ClusterFIPName = "masterNode_FIP"
	s := &in.Topology.Servers[0]
	s.ConnectionPoints = append(s.ConnectionPoints, api.ConnectionPoint{Name: "masterNode_FIP", Addresses: []string{"10.10.0.11"}, FloatingAddresses: []string{"203.0.113.11"}})
}

func TestWithoutAnEndpointNobodyJoins(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"no such connection point": func(in *Input) { in.Params.Cluster.Master.ClusterCPName = "vip_CP" },
		"one of a worker":          func(in *Input) { in.Params.Cluster.Master.ClusterCPName = "workerNode_CP2" },
		"one without an address":   func(in *Input) { in.Topology.Servers[0].ConnectionPoints[0].Addresses = nil },
	} {
		t.Run(name, func(t *testing.T) {
			in := membersInput()
			floatingMaster(&in)
			change(&in)
			out := Make(in)
			for _, id := range []string{masterID, workerID} {
				n := node(t, out, id)
				if n.Config.Cluster != nil || out.Endpoint != "" {
					t.Errorf("%s has %+v, from outside %q", n.Name, n.Config.Cluster, out.Endpoint)
				}
				wantWithheld(t, n, api.SectionCluster, api.ReasonConnectionPointUnresolved, in.Params.Cluster.Master.ClusterCPName)
			}
		})
	}
}

// A worker that comes concerns itself and the master that keeps its token, and nobody else.
func TestAWorkerThatComesChangesTheOwnersMembersOnly(t *testing.T) {
	in := joined(withMaster(membersInput(), secondM, "10.10.0.12"), masterID, secondM)
	before := Make(in)
	in.CarriedOver = before.CarriedOver
	added := uuid(5, 1)
	in.Topology.Servers = append(in.Topology.Servers, api.Server{ID: added, Name: "added", ConnectionPoints: []api.ConnectionPoint{{Name: "workerNode_CP2"}}})
	after := Make(in)
	for _, n := range before.Nodes {
		now := node(t, after, n.ID)
		if n.ID == masterID {
			n.Config.ClusterMembers, now.Config.ClusterMembers = nil, nil
		}
		if diff := cmp.Diff(n, now); diff != "" {
			t.Errorf("%s (-before +after):\n%s", n.Name, diff)
		}
	}
	members := node(t, after, masterID).Config.ClusterMembers.Members
	i := slices.IndexFunc(members, func(m api.ClusterMember) bool { return m.ServerID == added })
	if i < 0 || len(members) != 4 || members[i].BootstrapToken != node(t, after, added).Config.Cluster.BootstrapToken || members[i].Addresses == nil {
		t.Errorf("members %+v, want the added one with its own token", members)
	}
}
