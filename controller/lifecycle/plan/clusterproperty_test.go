package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// drawMembers gives the cluster cluster_members, and any masters that are members already.
func drawMembers(t *rapid.T, in *Input) {
	c := in.Params.Cluster
	c.Members = &params.ClusterMembers{EndpointPort: 6443, Access: rapid.SampledFrom([]params.ClusterAccess{params.AccessTacker, params.AccessAdmin}).Draw(t, "access")}
	c.Master.ClusterCPName = rapid.SampledFrom([]string{"m", "m", "vip", "extra", "none"}).Draw(t, "cluster CP")
	for _, s := range in.Topology.Servers {
		if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
			in.Leaving = append(in.Leaving, s.ID)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "kubernetes") > 0 {
		drawKubernetes(t, in)
	}
	in.Cluster = Cluster{Secret: []byte("secret"), CACertificateHash: rapid.SampledFrom([]string{"", hash}).Draw(t, "hash")}
	for _, s := range in.Topology.Servers {
		if s.Name == "m" && rapid.Bool().Draw(t, "a member before") {
			in.CarriedOver.Members = append(in.CarriedOver.Members, s.ID)
		}
	}
}

// drawKubernetes has nodehitch make the cluster, with package files in any state.
func drawKubernetes(t *rapid.T, in *Input) {
	k := &params.Kubernetes{Version: "1.34.4", ImageRepository: rapid.SampledFrom([]string{"", "10.10.0.3:5000"}).Draw(t, "repository")}
	k.PodNetworkPath = rapid.SampledFrom([]string{"", "net.yaml"}).Draw(t, "network")
	k.KubeadmConfigPath = rapid.SampledFrom([]string{"", "kubeadm.yaml"}).Draw(t, "configuration")
	k.ImagePaths = rapid.SampledFrom([][]string{nil, {"images.tar"}}).Draw(t, "images")
	for _, path := range []string{"net.yaml", "kubeadm.yaml", "images.tar"} {
		switch rapid.IntRange(0, 7).Draw(t, "file of the cluster") {
		case 0: // not uploaded
		case 1:
			in.Files[path] = File{Problem: "is faulty"}
		default:
			in.Files[path] = File{SHA256: path}
		}
	}
	in.Params.Cluster.Kubernetes = k
}

// beganOrEnded reports whether the cluster came to be between two plans, or is no more: its only
// member has enrolled anew and says that it has joined nothing.
func beganOrEnded(before, after Output) bool {
	return (len(before.CarriedOver.Members) == 0) != (len(after.CarriedOver.Members) == 0)
}

// One master at most is told to make the cluster, and only while no master is a member. One
// master at most speaks for it, and only a member. All others get what they join with, whole,
// or know why not.
func TestNoClusterIsMadeTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawVolumes(t)
		if in.Params.Cluster.Members == nil {
			drawMembers(t, &in)
			in.Nodes = drawObserved(t, in)
		}
		out := Make(in)
		members, makes, tokens := out.CarriedOver.Members, 0, map[string]bool{}
		stays := func(n Node) bool {
			return n.Role == api.RoleMaster && (len(members) == 0 || slices.Contains(members, n.ID) && !slices.Contains(in.Leaving, n.ID))
		}
		speaker := func(n Node) bool { return stays(n) && n.ID == out.CarriedOver.Owner }
		if slices.ContainsFunc(out.Nodes, stays) != slices.ContainsFunc(out.Nodes, speaker) {
			t.Fatalf("%q speaks for the members %v, and %v leave", out.CarriedOver.Owner, members, in.Leaving)
		}
		for _, n := range out.Nodes {
			section, joins := n.Config.Cluster, n.Role == api.RoleMaster || n.Role == api.RoleWorker
			if joins != (section != nil || n.withholds(api.SectionCluster)) || section != nil && n.withholds(api.SectionCluster) {
				t.Fatalf("%s %s has %+v, withheld %+v", n.Role, n.ID, section, n.Withheld)
			}
			if n.Role == api.RoleMaster && in.Nodes[n.ID].Member && !slices.Contains(members, n.ID) {
				t.Fatalf("members %v, without %s", members, n.ID)
			}
			speaks := n.ID == out.CarriedOver.Owner && slices.Contains(members, n.ID)
			if c := n.Config; (c.ClusterMembers != nil) != speaks || (c.ClusterDepartures != nil) != speaks || (c.ClusterAccess != nil) != speaks {
				t.Fatalf("%s has the sections %v; the owner is %s, members %v", n.ID, c.Sections(), out.CarriedOver.Owner, members)
			}
			if section == nil {
				continue
			}
			if section.Initialize {
				makes++
			}
			if tokens[section.BootstrapToken] || (section.CertificateKey != "") != (n.Role == api.RoleMaster) {
				t.Fatalf("%s %s has %+v, and tokens of others are %v", n.Role, n.ID, section, tokens)
			}
			tokens[section.BootstrapToken] = true
			if want := in.Cluster.CACertificateHash; len(members) > 0 && section.CACertificateHash != want || len(members) == 0 && section.CACertificateHash != "" {
				t.Fatalf("members %v, the hash %q is known, and %s has %+v", members, want, n.ID, section)
			}
		}
		resolved := out.Endpoint != "" && nodeOf(out, api.RoleMaster) != nil && !nodeOf(out, api.RoleMaster).withholds(api.SectionKubernetes)
		if makes > 1 || (makes == 1) != (resolved && len(members) == 0 && in.Nodes[out.CarriedOver.Owner].NotJoined) {
			t.Fatalf("%d masters make the cluster of the members %v, at %q", makes, members, out.Endpoint)
		}
	})
}

// However silent, a master that may be making the cluster stays the only one that makes it,
// until one is a member.
func TestWhoMakesTheClusterIsDecidedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawVolumes(t)
		drawMembers(t, &in)
		in.CarriedOver.Members = nil
		in.Nodes = nobodyIsAMember(drawObserved(t, in))
		before := Make(in)
		owner := before.CarriedOver.Owner
		if !before.CarriedOver.Initialize {
			t.Skip("nobody can have begun")
		}
		in.CarriedOver, in.Nodes = before.CarriedOver, nobodyIsAMember(drawObserved(t, in))
		in.Nodes[owner] = Observed{Enrolled: true, Heard: rapid.Bool().Draw(t, "the owner is heard")}
		for _, n := range Make(in).Nodes {
			if c := n.Config.Cluster; c != nil && c.Initialize != (n.ID == owner) {
				t.Fatalf("%s makes the cluster: %v; %s may have begun to", n.ID, c.Initialize, owner)
			}
		}
	})
}

func nobodyIsAMember(nodes map[string]Observed) map[string]Observed {
	for id, seen := range nodes {
		seen.Member = false
		nodes[id] = seen
	}
	return nodes
}
