package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

const networkPath, configPath = "Files/net.yaml", "Files/kubeadm.yaml"

var programPaths, imagePaths = []string{"Files/node.tar.gz", "Files/cni.tgz"}, []string{"Files/images.tar"}

// kubernetesInput is membersInput whose cluster nodehitch makes, with all that it can have.
func kubernetesInput() Input {
	in := membersInput()
	in.Params.Cluster.Kubernetes = &params.Kubernetes{
		Version: "1.34.4", ImageRepository: "10.10.0.3:5000/k8s", PodNetworkPath: networkPath, KubeadmConfigPath: configPath,
		ProgramPaths: programPaths, ImagePaths: imagePaths,
	}
	in.Files = map[string]File{
		networkPath: {SHA256: "aa", SizeBytes: 1}, configPath: {SHA256: "bb", SizeBytes: 2},
		programPaths[0]: {SHA256: "cc", SizeBytes: 3}, programPaths[1]: {SHA256: "dd", SizeBytes: 4}, imagePaths[0]: {SHA256: "ee", SizeBytes: 5},
	}
	return in
}

func TestMachinesGetWhatTheirAgentMakesTheClusterWith(t *testing.T) {
	in := kubernetesInput()
	out := Make(in)
	master, worker := node(t, out, masterID), node(t, out, workerID)
	want := &api.KubernetesSection{
		Version: "1.34.4", ImageRepository: "10.10.0.3:5000/k8s",
		ProgramArchives: []api.FileReference{{Sha256: "cc", SizeBytes: 3}, {Sha256: "dd", SizeBytes: 4}}, ImageArchives: []api.FileReference{{Sha256: "ee", SizeBytes: 5}},
	}
	if diff := cmp.Diff(want, worker.Config.Kubernetes); diff != "" {
		t.Errorf("the worker (-want +got):\n%s", diff)
	}
	want.KubeadmConfig = &api.FileReference{Sha256: "bb", SizeBytes: 2}
	if diff := cmp.Diff(want, master.Config.Kubernetes); diff != "" {
		t.Errorf("the master (-want +got):\n%s", diff)
	}
	if c := master.Config; c.ControlPlane == nil || !c.Cluster.Initialize || c.PodNetwork != nil {
		t.Errorf("the master has %v", c.Sections())
	}
	if c := worker.Config; c.ControlPlane != nil || c.Cluster == nil || len(worker.Withheld) > 0 {
		t.Errorf("the worker has %v, withheld %+v", c.Sections(), worker.Withheld)
	}
	wantWithheld(t, master, api.SectionPodNetwork, api.ReasonNotJoined, masterID)

	out = Make(joined(withMaster(in, secondM, "10.10.0.12"), masterID, secondM))
	owner, other := node(t, out, masterID), node(t, out, secondM)
	if diff := cmp.Diff(&api.PodNetworkSection{Manifest: &api.FileReference{Sha256: "aa", SizeBytes: 1}}, owner.Config.PodNetwork); diff != "" || len(owner.Withheld) > 0 {
		t.Errorf("the owner, withheld %+v (-want +got):\n%s", owner.Withheld, diff)
	}
	if c := other.Config; c.PodNetwork != nil || c.ControlPlane == nil || c.Kubernetes == nil {
		t.Errorf("the other master has %v", c.Sections())
	}

	in.Params.Cluster.Kubernetes = &params.Kubernetes{Version: "1.34.4"}
	c := node(t, Make(joined(in, masterID)), masterID).Config
	if diff := cmp.Diff(&api.KubernetesSection{Version: "1.34.4"}, c.Kubernetes); diff != "" || c.PodNetwork == nil || c.PodNetwork.Manifest != nil {
		t.Errorf("with the version alone, and the network %+v (-want +got):\n%s", c.PodNetwork, diff)
	}
}

func TestWithoutKubernetesAProgramOfTheUsersJoins(t *testing.T) {
	for _, n := range Make(joined(membersInput(), masterID)).Nodes {
		if c := n.Config; c.Kubernetes != nil || c.ControlPlane != nil || c.PodNetwork != nil || len(n.Withheld) > 0 {
			t.Errorf("%s has %v, withheld %+v", n.Name, c.Sections(), n.Withheld)
		}
	}
}

// An agent that has the section cluster alone has a program join the machine, so neither is
// given without the other.
func TestTheClusterIsWithheldWhereKubernetesIs(t *testing.T) {
	old := func(in *Input, id string) {
		sections := slices.DeleteFunc(api.Sections(), func(s string) bool { return s == api.SectionKubernetes })
		in.Agents = map[string]api.Agent{id: {Version: "v0.3.0", Sections: sections}}
	}
	for name, c := range map[string]struct {
		change func(*Input)
		reason api.Reason
		text   string
		server string // "" for every machine of the cluster
	}{
		"the master's agent is too old":         {func(in *Input) { old(in, masterID) }, api.ReasonAgentTooOld, "v0.3.0", masterID},
		"the worker's agent is too old":         {func(in *Input) { old(in, workerID) }, api.ReasonAgentTooOld, "v0.3.0", workerID},
		"kubeadm's configuration is missing":    {func(in *Input) { delete(in.Files, configPath) }, api.ReasonFileMissing, configPath, masterID},
		"an archive is missing":                 {func(in *Input) { delete(in.Files, imagePaths[0]) }, api.ReasonFileMissing, imagePaths[0], ""},
		"an archive has a problem":              {func(in *Input) { in.Files[programPaths[1]] = File{Problem: "is faulty"} }, api.ReasonFileMissing, "is faulty", ""},
		"kubeadm's configuration has a problem": {func(in *Input) { in.Files[configPath] = File{Problem: "is faulty"} }, api.ReasonFileMissing, "is faulty", masterID},
	} {
		t.Run(name, func(t *testing.T) {
			in := kubernetesInput()
			c.change(&in)
			out := Make(in)
			for _, n := range out.Nodes {
				if n.Role != api.RoleMaster && n.Role != api.RoleWorker {
					continue
				}
				affected := n.ID == c.server || c.server == ""
				if has := n.Config.Kubernetes != nil; has == affected || has != (n.Config.Cluster != nil) || has != (n.Config.ControlPlane != nil) && n.Role == api.RoleMaster {
					t.Errorf("%s has %v", n.Name, n.Config.Sections())
				}
				if !affected {
					continue
				}
				for _, section := range []string{api.SectionKubernetes, api.SectionCluster} {
					w := n.why(section)
					if w == nil || w.Reason != c.reason {
						t.Errorf("%s is withheld with %+v, want %s", section, w, c.reason)
						continue
					}
					wantWithheld(t, n, section, c.reason, c.text)
				}
				if n.Role == api.RoleMaster && (n.why(api.SectionControlPlane) == nil || n.why(api.SectionControlPlane).Reason != c.reason) {
					t.Errorf("the control plane is withheld with %+v", n.why(api.SectionControlPlane))
				}
			}
		})
	}
}

// What a member was, it stays: the owner goes on for the cluster while its configuration cannot
// be had.
func TestAMemberWithoutItsConfigurationStaysTheOwner(t *testing.T) {
	in := joined(kubernetesInput(), masterID)
	delete(in.Files, configPath)
	in.Nodes[masterID] = Observed{Enrolled: true, Heard: true} // ClusterMember is not asked of it now
	out := Make(in)
	n := node(t, out, masterID)
	if !slices.Equal(out.CarriedOver.Members, []string{masterID}) || n.Config.Cluster != nil || n.Config.ClusterMembers == nil || n.Config.PodNetwork == nil {
		t.Errorf("members %v, and the owner has %v", out.CarriedOver.Members, n.Config.Sections())
	}
}

func TestAPodNetworkThatIsMissingIsWithheld(t *testing.T) {
	in := joined(kubernetesInput(), masterID)
	delete(in.Files, networkPath)
	n := node(t, Make(in), masterID)
	if n.Config.PodNetwork != nil || n.Config.Cluster == nil || n.Config.ClusterMembers == nil {
		t.Errorf("the owner has %v", n.Config.Sections())
	}
	wantWithheld(t, n, api.SectionPodNetwork, api.ReasonFileMissing, networkPath)
}

func TestTheSharedAddress(t *testing.T) {
	vip := func(addresses ...string) func(*Input) {
		return func(in *Input) {
			in.Params.Cluster.Master.ClusterCPName = "vip_CP"
			in.Topology.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: addresses}, {Name: "other_CP", Addresses: []string{"10.10.0.11"}}}
		}
	}
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"of a master":                                {func(*Input) {}, ""},
		"of the stack":                               {vip("10.10.0.9"), "10.10.0.9"},
		"of the stack and of a master":               {vip("10.10.0.11"), ""},
		"of a master, as another one's of the stack": {func(in *Input) { vip()(in); in.Params.Cluster.Master.ClusterCPName = "masterNode_CP1" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := kubernetesInput()
			c.change(&in)
			if s := node(t, Make(in), masterID).Config.ControlPlane; s == nil || s.SharedAddress != c.want {
				t.Errorf("the master has %+v, want the shared address %q", s, c.want)
			}
		})
	}
	in := kubernetesInput()
	vip()(&in)
	n := node(t, Make(in), masterID)
	if n.Config.ControlPlane != nil {
		t.Errorf("the endpoint is not known, and the master has %+v", n.Config.ControlPlane)
	}
	wantWithheld(t, n, api.SectionControlPlane, api.ReasonConnectionPointUnresolved, "vip_CP")
}

// A machine is made a member by its agent or by another program, and both know which; the Pods'
// network is with the member that speaks for the cluster.
func TestEveryMachineKnowsWhoJoinsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawVolumes(t)
		if in.Params.Cluster.Members == nil {
			drawMembers(t, &in)
		}
		out := Make(in)
		k := in.Params.Cluster.Kubernetes
		for _, n := range out.Nodes {
			c := n.Config
			joins, master := n.Role == api.RoleMaster || n.Role == api.RoleWorker, n.Role == api.RoleMaster
			if given := c.Kubernetes != nil; given != (joins && k != nil && !n.withholds(api.SectionKubernetes)) {
				t.Fatalf("%s %s: kubernetes %+v, withheld %+v", n.Role, n.ID, c.Kubernetes, n.Withheld)
			}
			if k != nil && c.Cluster != nil && c.Kubernetes == nil {
				t.Fatalf("%s %s is to be joined by a program of the user's", n.Role, n.ID)
			}
			if given := c.ControlPlane != nil; given != (master && k != nil && c.Cluster != nil) || given == n.withholds(api.SectionControlPlane) && master && k != nil {
				t.Fatalf("%s %s: control plane %+v, withheld %+v", n.Role, n.ID, c.ControlPlane, n.Withheld)
			}
			speaks := n.ID == out.CarriedOver.Owner && slices.Contains(out.CarriedOver.Members, n.ID)
			if given := c.PodNetwork != nil; given != (speaks && k != nil && !n.withholds(api.SectionPodNetwork)) {
				t.Fatalf("%s %s: Pod network %+v; the owner is %s, members %v", n.Role, n.ID, c.PodNetwork, out.CarriedOver.Owner, out.CarriedOver.Members)
			}
			if s := c.Kubernetes; s != nil && (s.KubeadmConfig != nil) != (master && k.KubeadmConfigPath != "") {
				t.Fatalf("%s %s has %+v", n.Role, n.ID, s)
			}
			if s := c.PodNetwork; s != nil && (s.Manifest != nil) != (k.PodNetworkPath != "") {
				t.Fatalf("%s %s has %+v", n.Role, n.ID, s)
			}
		}
	})
}
