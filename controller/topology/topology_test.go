package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

const (
	serverA = "8a3adb69-0784-43c7-833e-aab0b6ab4470"
	serverB = "8d8373fe-6977-49ff-83ac-7756572ed186"
	volumeA = "f0c82461-36b5-4d86-8322-b0bc19cda65f"
	volumeB = "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1"
)

func points(names ...string) []api.ConnectionPoint {
	var list []api.ConnectionPoint
	for _, n := range names {
		list = append(list, api.ConnectionPoint{Name: n, Addresses: []string{"10.10.0.5"}})
	}
	return list
}

func storageTopology() *api.Topology {
	return &api.Topology{
		StackStatus: "CREATE_COMPLETE",
		Servers: []api.Server{{
			ID: serverA, Name: "storage_server", ConnectionPoints: points("storage_server_CP"),
			VolumeIds: []string{volumeA},
		}},
		ConnectionPoints: points("vip_CP"),
		Volumes:          []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volumeA, SizeBytes: 1 << 30}},
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*api.Topology)
		want    map[string]string // pointer to a part of the message
	}{
		"nothing wrong": {func(*api.Topology) {}, nil},
		"upper case ids": {func(tp *api.Topology) {
			tp.Servers[0].ID = strings.ToUpper(serverA)
			tp.Servers[0].VolumeIds[0] = strings.ToUpper(volumeA)
		}, nil},
		"two servers of one name, as a Heat group makes them": {func(tp *api.Topology) {
			tp.Servers = append(tp.Servers, api.Server{ID: serverB, Name: "storage_server"})
		}, nil},
		"a volume on two servers is the cloud's state, not a mistake": {func(tp *api.Topology) {
			tp.Servers = append(tp.Servers, api.Server{ID: serverB, Name: "b", VolumeIds: []string{volumeA}})
		}, nil},
		"not UUIDs": {func(tp *api.Topology) {
			tp.Servers[0].ID, tp.Servers[0].VolumeIds[0], tp.Volumes[0].ID = "vm-1", "{"+volumeA+"}", ""
		}, map[string]string{
			"/topology/servers/0/id": "server id (Nova", "/topology/servers/0/volumeIds/0": "Cinder volume id",
			"/topology/volumes/0/id": "Cinder volume id",
		}},
		"a server twice, in another case": {func(tp *api.Topology) {
			tp.Servers = append(tp.Servers, api.Server{ID: strings.ToUpper(serverA), Name: "again"})
		}, map[string]string{"/topology/servers/1/id": "already at /topology/servers/0/id"}},
		"a VNFC instance twice": {func(tp *api.Topology) {
			tp.Servers[0].VnfcInstanceID = "vnfc"
			tp.Servers = append(tp.Servers, api.Server{ID: serverB, Name: "b", VnfcInstanceID: "vnfc"})
		}, map[string]string{"/topology/servers/1/vnfcInstanceId": "already"}},
		"two servers in one nested stack": {func(tp *api.Topology) {
			tp.Servers[0].MemberStackID = volumeB
			tp.Servers = append(tp.Servers, api.Server{ID: serverB, Name: "b", MemberStackID: volumeB})
		}, nil},
		"a nested stack by its name": {func(tp *api.Topology) { tp.Servers[0].MemberStackID = "workers-0" },
			map[string]string{"/topology/servers/0/memberStackId": "Heat stack id"}},
		"names missing": {func(tp *api.Topology) {
			tp.Servers[0].Name, tp.Servers[0].ConnectionPoints[0].Name, tp.Volumes[0].ResourceID = " ", "", "a\nb"
		}, map[string]string{
			"/topology/servers/0/name": "is empty", "/topology/servers/0/connectionPoints/0/name": "is empty",
			"/topology/volumes/0/resourceId": "control character",
		}},
		"one resource for two volumes": {func(tp *api.Topology) {
			tp.Volumes = append(tp.Volumes, api.TopologyVolume{ResourceID: "storage_server_volume", ID: volumeB})
		}, map[string]string{"/topology/volumes/1/resourceId": "already"}},
		"one volume for two resources": {func(tp *api.Topology) {
			tp.Volumes = append(tp.Volumes, api.TopologyVolume{ResourceID: "other", ID: volumeA})
		}, map[string]string{"/topology/volumes/1/id": "already"}},
		"attached twice, and an unknown one": {func(tp *api.Topology) {
			tp.Servers[0].VolumeIds = []string{volumeA, volumeA, volumeB}
		}, map[string]string{
			"/topology/servers/0/volumeIds/1": "already", "/topology/servers/0/volumeIds/2": "add it there with its resourceId",
		}},
		"negative size": {func(tp *api.Topology) { tp.Volumes[0].SizeBytes = -1 },
			map[string]string{"/topology/volumes/0/sizeBytes": "is -1"}},
		"addresses": {func(tp *api.Topology) {
			tp.Servers[0].ConnectionPoints[0].Addresses = []string{"10.10.0.5", "10.10.0.500", "fe80::1%eth0", "0.0.0.0", "fd00::5"}
			tp.ConnectionPoints[0].FloatingAddresses = []string{"203.0.113.5", "cloud.example"}
		}, map[string]string{
			"/topology/connectionPoints/0/floatingAddresses/1":   "no IP address",
			"/topology/servers/0/connectionPoints/0/addresses/1": "no IP address",
			"/topology/servers/0/connectionPoints/0/addresses/2": "zone",
			"/topology/servers/0/connectionPoints/0/addresses/3": "not the address of one machine",
		}},
		"a connection point twice on the stack": {func(tp *api.Topology) {
			tp.ConnectionPoints = points("vip_CP", "vip_CP")
		}, map[string]string{"/topology/connectionPoints/1/name": "already"}},
	} {
		t.Run(name, func(t *testing.T) {
			tp := storageTopology()
			c.breakIt(tp)
			wantFaults(t, Validate(tp, fault.Root.Key("topology")), c.want)
		})
	}
	if faults := Validate(nil, fault.Root); faults != nil {
		t.Errorf("no topology: %v", faults)
	}
}

func wantFaults(t *testing.T, got fault.List, want map[string]string) {
	t.Helper()
	for _, f := range got {
		part, ok := want[f.Pointer]
		if !ok || !strings.Contains(f.Message, part) {
			t.Errorf("fault %v, want at it %q", f, part)
		}
		delete(want, f.Pointer)
	}
	for pointer, part := range want {
		t.Errorf("no fault at %s; want one with %q", pointer, part)
	}
}

func cluster() *params.Params {
	c := &params.Cluster{
		StorageServer: &params.StorageServer{SSHCPName: "storage_server_CP", NICCPName: "storage_nfs_CP"},
	}
	c.Master.Node = params.Node{AspectID: "master_instance", SSHCPName: "CP1", NICCPName: "CP1"}
	c.Worker.Node = params.Node{AspectID: "worker_instance", SSHCPName: "CP1", NICCPName: "CP2"}
	return &params.Params{Cluster: c}
}

// vdus is the cluster with VDUs in place of aspects.
func vdus() *params.Params {
	p := cluster()
	p.Cluster.Master.AspectID, p.Cluster.Master.VduID = "", "masterNode"
	p.Cluster.Worker.AspectID, p.Cluster.Worker.VduID = "", "workerNode"
	p.Cluster.StorageServer.VduID = "storageNode"
	return p
}

// both is the cluster with VDUs besides the aspects.
func both() *params.Params {
	p := vdus()
	p.Cluster.Master.AspectID, p.Cluster.Worker.AspectID = "master_instance", "worker_instance"
	return p
}

func TestAssign(t *testing.T) {
	id := func(i int) string { return serverA[:35] + string(rune('0'+i)) }
	for name, c := range map[string]struct {
		params  func() *params.Params // nil: cluster
		server  api.Server
		role    api.Role
		fault   string
		warning string
	}{
		"by its connection point":                 {server: api.Server{ConnectionPoints: points("storage_server_CP")}, role: api.RoleStorage},
		"by its other connection point":           {server: api.Server{ConnectionPoints: points("x", "storage_nfs_CP")}, role: api.RoleStorage},
		"by its aspect":                           {server: api.Server{AspectID: "worker_instance"}, role: api.RoleWorker},
		"a point that two groups have, by aspect": {server: api.Server{AspectID: "master_instance", ConnectionPoints: points("CP1")}, role: api.RoleMaster},
		"a point that two groups have, no aspect": {server: api.Server{ConnectionPoints: points("CP1")}, fault: `makes it master, its connection point "CP1" makes it worker`},
		"aspect of one, point of a role without":  {server: api.Server{AspectID: "worker_instance", ConnectionPoints: points("storage_server_CP")}, fault: "more than one role"},
		"a point that only workers have":          {server: api.Server{ConnectionPoints: points("CP2")}, role: api.RoleWorker},
		"nothing that the parameters name":        {server: api.Server{ConnectionPoints: points("other")}, warning: `aspect "master_instance" (master)`},
		"another group's":                         {server: api.Server{AspectID: "other", ConnectionPoints: points("CP1")}, warning: "is ignored"},

		"by its VDU":                           {params: vdus, server: api.Server{VduID: "workerNode"}, role: api.RoleWorker},
		"by its VDU, a storage server":         {params: vdus, server: api.Server{VduID: "storageNode"}, role: api.RoleStorage},
		"a point that two VDUs have, by VDU":   {params: vdus, server: api.Server{VduID: "masterNode", ConnectionPoints: points("CP1")}, role: api.RoleMaster},
		"a point that two VDUs have, no VDU":   {params: vdus, server: api.Server{ConnectionPoints: points("CP1")}, fault: "aspectId or vduId, or a connection point that only one role has"},
		"another VDU's":                        {params: vdus, server: api.Server{VduID: "other", ConnectionPoints: points("CP1")}, warning: `VDU "masterNode" (master)`},
		"VDU of one, point of another":         {params: vdus, server: api.Server{VduID: "workerNode", ConnectionPoints: points("storage_server_CP")}, role: api.RoleWorker},
		"a group's, of no VDU that is named":   {params: both, server: api.Server{AspectID: "worker_instance", VduID: "monitor", ConnectionPoints: points("CP2")}, warning: "is ignored"},
		"the VDU of a role, in another group":  {params: both, server: api.Server{AspectID: "other", VduID: "workerNode"}, warning: "is ignored"},
		"in its group, with its VDU":           {params: both, server: api.Server{AspectID: "worker_instance", VduID: "workerNode"}, role: api.RoleWorker},
		"its VDU, and the aspect is not known": {params: both, server: api.Server{VduID: "workerNode"}, role: api.RoleWorker},
		"a registry by its VDU": {params: func() *params.Params {
			return &params.Params{Registry: &params.Registry{SSHCPName: "CP1", VduID: "registryNode"}}
		}, server: api.Server{VduID: "registryNode"}, role: api.RoleRegistry},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.ID, c.server.Name = id(1), "vm"
			p := cluster()
			if c.params != nil {
				p = c.params()
			}
			a := Assign(p, &api.Topology{Servers: []api.Server{c.server}}, fault.Root.Key("topology"))
			if got := a.Roles[id(1)]; got != c.role {
				t.Errorf("role %q, want %q", got, c.role)
			}
			wantOne(t, a.Faults, c.fault)
			wantOne(t, a.Warnings, c.warning)
		})
	}
}

func wantOne(t *testing.T, got fault.List, part string) {
	t.Helper()
	switch {
	case part == "" && len(got) == 0:
	case part != "" && len(got) == 1 && strings.Contains(got[0].Message, part) && got[0].Pointer == "/topology/servers/0":
	default:
		t.Errorf("found %v, want one at /topology/servers/0 with %q", got, part)
	}
}

func TestAssignWantsOneStorageServerAndNamesWhatIsMissing(t *testing.T) {
	tp := &api.Topology{Servers: []api.Server{
		{ID: serverA, Name: "old", ConnectionPoints: points("storage_server_CP")},
		{ID: serverB, Name: "new", ConnectionPoints: points("storage_server_CP")},
	}}
	a := Assign(cluster(), tp, fault.Root)
	if len(a.Faults) != 1 || !strings.Contains(a.Faults[0].Message, "old") || !strings.Contains(a.Faults[0].Message, "new") {
		t.Errorf("faults %v, want one that names both servers", a.Faults)
	}
	if want := []api.Role{api.RoleMaster, api.RoleWorker}; !slices.Equal(a.Missing, want) {
		t.Errorf("missing %v, want %v", a.Missing, want)
	}
	if want := []string{serverA, serverB}; !slices.Equal(a.Servers(api.RoleStorage), want) {
		t.Errorf("storage servers %v, want %v", a.Servers(api.RoleStorage), want)
	}
	if a := Assign(&params.Params{Registry: &params.Registry{SSHCPName: "CP1"}}, nil, fault.Root); !slices.Equal(a.Missing, []api.Role{api.RoleRegistry}) {
		t.Errorf("missing %v in a registry without topology", a.Missing)
	}
}

func TestHowAVNFCIsNamed(t *testing.T) {
	servers := Normalize(&api.Topology{Servers: []api.Server{
		{ID: serverA, VnfcInstanceID: "vnfc-A", MemberStackID: strings.ToUpper(volumeB)}, {ID: serverB, MemberStackID: volumeB}, {ID: volumeA}}}).Servers
	for name, want := range map[string][]string{
		"vnfc-A": {serverA}, "vnfc-a": nil, serverB: {serverB}, strings.ToUpper(serverB): {serverB},
		volumeB: {serverA, serverB}, strings.ToUpper(volumeB): {serverA, serverB}, "": nil,
	} {
		var got []string
		for _, s := range Named(servers, name) {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", name, got, want)
		}
	}
}
