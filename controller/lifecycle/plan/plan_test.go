package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

const (
	storageID = "8a3adb69-0784-43c7-833e-aab0b6ab4470"
	masterID  = "11111111-6977-49ff-83ac-7756572ed186"
	volumeID  = "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1"
)

// input is one storage server and one master, as the specification's sample has them.
func input() Input {
	c := &params.Cluster{
		Proxy: &params.Proxy{
			HTTP: params.NewSecret("http://user1:password1@host1:port1"), NoProxy: "10.0.0.1",
			NodeCIDR: netip.MustParsePrefix("10.10.0.0/24"),
		},
		StorageServer: &params.StorageServer{
			SSHCPName: "storage_server_CP",
			Volumes:   []params.Volume{{ResourceID: "storage_server_volume", MountTo: "/volume"}},
			Exports: []params.Export{
				{Directory: "/volume/nfs/pv2", To: []string{"10.10.0.0/24"}, Options: []string{"ro", "sync"}, MountTo: "/volume"},
				{Directory: "/volume/nfs/pv1", To: []string{"10.10.0.9", "10.10.0.0/24"}, Options: []string{"rw", "sync"}, MountTo: "/volume"},
			},
		},
	}
	c.Master.Node = params.Node{SSHCPName: "masterNode_CP1"}
	c.Worker.Node = params.Node{SSHCPName: "workerNode_CP2"}
	return Input{
		Epoch:  7,
		Params: &params.Params{Cluster: c},
		Topology: &api.Topology{
			Servers: []api.Server{
				{
					ID: storageID, Name: "storage_server", VolumeIds: []string{volumeID},
					ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{"10.10.0.5", "10.10.0.5", "10.10.0.4"}}},
				},
				{ID: masterID, Name: "master", ConnectionPoints: []api.ConnectionPoint{{Name: "masterNode_CP1"}}},
			},
			Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volumeID, SizeBytes: 1 << 30}},
		},
	}
}

func node(t *testing.T, out Output, id string) Node {
	t.Helper()
	i := slices.IndexFunc(out.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		t.Fatalf("no node %s in the plan: %+v", id, out)
	}
	return out.Nodes[i]
}

func TestTheStorageServerGetsItsVolumeAndItsExports(t *testing.T) {
	out := Make(input())
	n := node(t, out, storageID)
	if n.Name != "storage_server" || n.Role != api.RoleStorage || !slices.Equal(n.Addresses, []string{"10.10.0.4", "10.10.0.5"}) || len(n.Withheld) > 0 {
		t.Errorf("storage node: %+v", n)
	}
	if c := n.Config; c.APIVersion != api.NodeConfigV1 || c.Epoch != 7 || c.Role != api.RoleStorage {
		t.Errorf("document of %s, epoch %d, for %s", c.APIVersion, c.Epoch, c.Role)
	}
	want := &api.StorageSection{
		Volumes: []api.StorageVolume{{
			VolumeID: volumeID, SizeBytes: 1 << 30, MountPath: "/volume",
			Filesystem: api.Ext4, FilesystemUUID: api.FilesystemUUID(volumeID),
		}},
		Exports: []api.StorageExport{
			{Directory: "/volume/nfs/pv1", Client: "10.10.0.0/24", Options: []string{"rw", "sync"}},
			{Directory: "/volume/nfs/pv1", Client: "10.10.0.9", Options: []string{"rw", "sync"}},
			{Directory: "/volume/nfs/pv2", Client: "10.10.0.0/24", Options: []string{"ro", "sync"}},
		},
	}
	if diff := cmp.Diff(want, n.Config.Storage); diff != "" {
		t.Errorf("storage section (-want +got):\n%s", diff)
	}
	uses := []VolumeUse{{ID: volumeID, ResourceID: "storage_server_volume", SizeBytes: 1 << 30, NodeID: storageID, AttachedTo: []string{storageID}}}
	if diff := cmp.Diff(uses, out.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if want := []api.Role{api.RoleWorker}; !slices.Equal(out.Missing, want) {
		t.Errorf("missing roles %v, want %v", out.Missing, want)
	}
	if master := node(t, out, masterID); master.Config.Storage != nil || master.Role != api.RoleMaster || len(master.Withheld) > 0 {
		t.Errorf("master: %+v", master)
	}
}

func TestAnAdoptedFilesystemKeepsItsUUID(t *testing.T) {
	in := input()
	in.Volumes = map[string]Volume{volumeID: {FilesystemUUID: "0b6ab447-0000-4000-8000-000000000001"}}
	if got := node(t, Make(in), storageID).Config.Storage.Volumes[0].FilesystemUUID; got != "0b6ab447-0000-4000-8000-000000000001" {
		t.Errorf("filesystem UUID %s, want the adopted one", got)
	}
}

func TestAReformatIsForTheNodeThatMayDoIt(t *testing.T) {
	for node, want := range map[string]bool{storageID: true, masterID: false, "": false} {
		in := input()
		in.Volumes = map[string]Volume{volumeID: {ReformatBy: node}}
		i := slices.IndexFunc(Make(in).Nodes, func(n Node) bool { return n.ID == storageID })
		if got := Make(in).Nodes[i].Config.Storage.Volumes[0].ReformatRequested; got != want {
			t.Errorf("permitted to %q: reformatRequested %v, want %v", node, got, want)
		}
	}
}

// The node that has the volume by now must know that it may hold half a format.
func TestAnInterruptedFormatIsToldToTheVolumesServer(t *testing.T) {
	in := input()
	in.Volumes = map[string]Volume{volumeID: {InterruptedBy: masterID}}
	if got := node(t, Make(in), storageID).Config.Storage.Volumes[0].FormatInterruptedBy; got != masterID {
		t.Errorf("interrupted by %q, want %s", got, masterID)
	}
}

func TestTheProxyReachesTheNodesNetworkDirectly(t *testing.T) {
	want := &api.ProxySection{HTTP: "http://user1:password1@host1:port1", NoProxy: "10.0.0.1,10.10.0.0/24"}
	for _, n := range Make(input()).Nodes {
		if diff := cmp.Diff(want, n.Config.Proxy); diff != "" {
			t.Errorf("proxy of %s (-want +got):\n%s", n.Name, diff)
		}
	}
}

func TestNoProxyIsAnEmptySection(t *testing.T) {
	in := input()
	in.Params.Cluster.Proxy = nil
	if got := node(t, Make(in), masterID).Config.Proxy; got == nil || *got != (api.ProxySection{}) {
		t.Errorf("proxy section %v, want an empty one, so that an old proxy is removed", got)
	}
}

func TestStorageIsWithheldWholeWhen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		reason api.Reason
		says   []string
		use    *VolumeUse
	}{
		"the topology has no such volume": {
			change: func(in *Input) { in.Topology.Volumes[0].ResourceID = "other" },
			reason: api.ReasonVolumeUnresolved, says: []string{"storage_server_volume", "which has other", "add it to topology.volumes"},
		},
		"the topology has no volumes": {
			change: func(in *Input) { in.Topology.Volumes = nil },
			reason: api.ReasonVolumeUnresolved, says: []string{"has no volumes"},
		},
		"it is attached to another server": {
			change: func(in *Input) {
				in.Topology.Servers[0].VolumeIds = nil
				in.Topology.Servers[1].VolumeIds = []string{volumeID}
			},
			reason: api.ReasonVolumeUnresolved, says: []string{"attached to " + masterID, "attach it there"},
			use: &VolumeUse{AttachedTo: []string{masterID}},
		},
		"the server lists other volumes only": {
			change: func(in *Input) { in.Topology.Servers[0].VolumeIds = []string{masterID} },
			reason: api.ReasonVolumeUnresolved, says: []string{"attached to no server"},
			use: &VolumeUse{},
		},
		"it is attached to two servers": {
			change: func(in *Input) { in.Topology.Servers[1].VolumeIds = []string{volumeID} },
			reason: api.ReasonMultiAttached, says: []string{masterID, storageID, "detach it from all but storage_server"},
			use: &VolumeUse{AttachedTo: []string{masterID, storageID}},
		},
		"a node of another instance has it": {
			change: func(in *Input) {
				in.Volumes = map[string]Volume{volumeID: {HeldBy: "node x of instance y"}}
			},
			reason: api.ReasonMultiAttached, says: []string{"in use by node x of instance y"},
			use: &VolumeUse{AttachedTo: []string{storageID}},
		},
		"one of two volumes is missing": {
			change: func(in *Input) {
				s := in.Params.Cluster.StorageServer
				s.Volumes = append(s.Volumes, params.Volume{ResourceID: "second", MountTo: "/second"})
			},
			reason: api.ReasonVolumeUnresolved, says: []string{`"second"`},
			use: &VolumeUse{AttachedTo: []string{storageID}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input()
			c.change(&in)
			out := Make(in)
			n := node(t, out, storageID)
			if n.Config.Storage != nil {
				t.Errorf("the document has a storage section: %+v", n.Config.Storage)
			}
			if len(n.Withheld) != 1 || n.Withheld[0].Reason != c.reason || n.Withheld[0].Section != "storage" || n.Withheld[0].NodeID != storageID {
				t.Fatalf("withheld %+v, want one storage section for %s", n.Withheld, c.reason)
			}
			for _, part := range c.says {
				if !strings.Contains(n.Withheld[0].Message, part) {
					t.Errorf("the message %q does not say %q", n.Withheld[0].Message, part)
				}
			}
			wantUse(t, out.Volumes, c.use)
		})
	}
}

// wantUse: the volume is on record with the servers that have it attached, and no node has it.
func wantUse(t *testing.T, got []VolumeUse, want *VolumeUse) {
	t.Helper()
	if want == nil {
		if len(got) != 0 {
			t.Errorf("volumes %+v, want none", got)
		}
		return
	}
	if len(got) != 1 || got[0].ID != volumeID || got[0].NodeID != "" || !slices.Equal(got[0].AttachedTo, want.AttachedTo) {
		t.Errorf("volumes %+v, want %s with no node and attached to %v", got, volumeID, want.AttachedTo)
	}
}

func TestAServerThatSaysNothingOfItsVolumesHasTheOneThatMatches(t *testing.T) {
	in := input()
	in.Topology.Servers[0].VolumeIds = nil
	if n := node(t, Make(in), storageID); n.Config.Storage == nil {
		t.Errorf("storage is withheld: %+v", n.Withheld)
	}
}

func TestWithoutATopologyThereIsNothingToDo(t *testing.T) {
	in := input()
	in.Topology = nil
	if out := Make(in); len(out.Nodes) != 0 || len(out.Faults) != 0 || len(out.Missing) != 3 {
		t.Errorf("plan %+v, want no nodes, no faults and all three roles missing", out)
	}
}

func TestAnAmbiguousTopologyGivesNoNodes(t *testing.T) {
	in := input()
	in.Topology.Servers[1].ConnectionPoints[0].Name = "storage_server_CP"
	if out := Make(in); len(out.Nodes) != 0 || len(out.Faults) != 1 {
		t.Errorf("plan %+v, want one fault and no nodes", out)
	}
}
