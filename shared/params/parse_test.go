package params_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

var compareValues = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// defaultOptions are those of an export without export_options.
var defaultOptions = []string{"rw", "sync", "no_subtree_check", "insecure", "all_squash"}

func TestClusterWithStorageServerBecomesTyped(t *testing.T) {
	request, _ := params.ParseRequest(read(t, "testdata/persistent-volumes.json"))
	node := func(role, cp string) params.Node {
		return params.Node{AspectID: role, SSHCPName: cp, NICCPName: cp, Username: "ubuntu", Password: params.NewSecret("ubuntu")}
	}
	export := func(dir string) params.Export {
		return params.Export{Directory: dir, To: []string{"10.10.0.0/24"}, Options: defaultOptions, MountTo: "/volume"}
	}
	manifest := func(path string) params.PVRegistration {
		return params.PVRegistration{ManifestPath: path, NFSServerCP: "storage_server_CP"}
	}
	want := &params.Params{Cluster: &params.Cluster{
		ScriptPath: "Scripts/install_k8s_cluster.sh",
		VIMName:    "kubernetes_vim",
		Master: params.MasterNode{
			Node:          node("master_instance", "masterNode_CP1"),
			PodCIDR:       netip.MustParsePrefix("192.168.0.0/16"),
			ClusterCIDR:   netip.MustParsePrefix("10.199.187.0/24"),
			ClusterCPName: "masterNode_CP1",
		},
		Worker: params.WorkerNode{Node: node("worker_instance", "workerNode_CP2")},
		Proxy: &params.Proxy{
			HTTP:     params.NewSecret("http://user1:password1@host1:port1"),
			HTTPS:    params.NewSecret("https://user2:password2@host2:port2"),
			NoProxy:  "192.168.246.0/24,10.0.0.1",
			NodeCIDR: netip.MustParsePrefix("10.10.0.0/24"),
		},
		StorageServer: &params.StorageServer{
			SSHCPName: "storage_server_CP", Username: "ubuntu", Password: params.NewSecret("ubuntu"),
			Volumes: []params.Volume{{ResourceID: "storage_server_volume", MountTo: "/volume"}},
			Exports: []params.Export{export("/volume/nfs/pv1"), export("/volume/nfs/pv2"), export("/volume/nfs/pv3")},
		},
		PersistentVolumes: []params.PVRegistration{
			manifest("Files/kubernetes/nfs-pv1.yaml"), manifest("Files/kubernetes/nfs-pv2.yaml"), manifest("Files/kubernetes/nfs-pv3.yaml"),
		},
	}}
	if diff := cmp.Diff(want, request.Params, compareValues); diff != "" {
		t.Error(diff)
	}
}

func TestRegistryConnectionsBecomeTyped(t *testing.T) {
	request, _ := params.ParseRequest(read(t, "testdata/registry-connections.json"))
	want := []params.RegistryConnection{
		{Type: params.HTTP, Server: "192.168.0.10:5000"},
		{
			Type: params.HTTPS, Server: "registry.example.com", Username: "user01", Password: params.NewSecret("user01"),
			CertificatePath: "Files/registries/ca.crt",
			HostsEntry:      &params.HostsEntry{Address: netip.MustParseAddr("192.168.0.20"), Names: []string{"registry.example.com"}},
		},
	}
	if diff := cmp.Diff(want, request.Params.Cluster.Registries, compareValues); diff != "" {
		t.Error(diff)
	}
	if got := want[1].HostsEntry.String(); got != "192.168.0.20 registry.example.com" {
		t.Errorf("the hosts entry prints %q", got)
	}
	if params.HTTP.Scheme() != "http" || params.HTTPS.Scheme() != "https" {
		t.Error("the schemes are not http and https")
	}
}

func TestPartsOnlyTackerUsesAreKeptAsWritten(t *testing.T) {
	body := read(t, "testdata/private-registry.json")
	request, _ := params.ParseRequest(body)
	for _, raw := range []json.RawMessage{request.ExtVirtualLinks, request.VIMConnectionInfo, request.AdditionalParams} {
		if len(raw) == 0 || !strings.Contains(string(body), string(raw)) || !json.Valid(raw) {
			t.Errorf("got %s", raw)
		}
	}
	if request.ExtManagedVirtualLinks != nil || request.FlavourID != "simple" {
		t.Errorf("got %+v", request)
	}
}

func TestRegistryDefaults(t *testing.T) {
	for text, want := range map[string]params.Registry{
		`{"ssh_cp_name":"CP1"}`:                                    {SSHCPName: "CP1", Username: "ubuntu", Port: 5000},
		`{"ssh_cp_name":"CP1","port_no":5001}`:                     {SSHCPName: "CP1", Username: "ubuntu", Port: 5001},
		`{"ssh_cp_name":"CP1","port_no":"443"}`:                    {SSHCPName: "CP1", Username: "ubuntu", Port: 443},
		`{"ssh_cp_name":"CP1","image_path":"./a.tar","proxy":{}}`:  {SSHCPName: "CP1", Username: "ubuntu", Port: 5000, ImagePath: "a.tar", Proxy: &params.Proxy{}},
		`{"ssh_cp_name":"CP1","ssh_username":"debian","x":[null]}`: {SSHCPName: "CP1", Username: "debian", Port: 5000},
		`{"ssh_cp_name":"CP1","vdu_id":"registryNode"}`:            {SSHCPName: "CP1", VduID: "registryNode", Username: "ubuntu", Port: 5000},
	} {
		p, report := params.Parse(json.RawMessage(`{"private_registry_installation_param":`+text+`}`), "")
		if p == nil {
			t.Errorf("%s: %v", text, report.Faults)
			continue
		}
		if diff := cmp.Diff(&want, p.Registry, compareValues); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if got := p.Registry.DataDirectory(); got != "/home/"+want.Username+"/registry" {
			t.Errorf("%s: data in %s", text, got)
		}
	}
}

func TestARegistrysDataLiesOnAVolumeBelowItsMountPoint(t *testing.T) {
	p, report := params.Parse(json.RawMessage(`{"private_registry_installation_param":{"ssh_cp_name":"CP1",
		"volume_resource_id":"registry_volume","mount_to":"/srv/registry"}}`), "")
	if p == nil || len(report.Warnings) > 0 {
		t.Fatal(report)
	}
	if want := (params.Volume{ResourceID: "registry_volume", MountTo: "/srv/registry"}); p.Registry.Volume == nil || *p.Registry.Volume != want {
		t.Errorf("volume %+v, want %+v", p.Registry.Volume, want)
	}
	if got := p.Registry.DataDirectory(); got != "/srv/registry/registry" {
		t.Errorf("data in %s", got)
	}
}

func TestClusterDefaults(t *testing.T) {
	p, report := params.Parse(json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s",
		"master_node":{"ssh_cp_name":"m","cluster_cp_name":"vip"},"worker_node":{"ssh_cp_name":"w","nic_cp_name":"w2"},
		"pv_registration_params":[],"private_registry_connection_info":[]}}`), "/additionalParams")
	if p == nil || len(report.Warnings) > 0 {
		t.Fatal(report)
	}
	want := &params.Cluster{
		ScriptPath: "s",
		Master: params.MasterNode{
			Node:          params.Node{SSHCPName: "m", NICCPName: "m"},
			PodCIDR:       netip.MustParsePrefix("192.168.0.0/16"),
			ClusterCIDR:   netip.MustParsePrefix("10.96.0.0/12"),
			ClusterCPName: "vip",
		},
		Worker: params.WorkerNode{Node: params.Node{SSHCPName: "w", NICCPName: "w2"}},
	}
	if diff := cmp.Diff(want, p.Cluster, compareValues); diff != "" {
		t.Error(diff)
	}
}

func TestAnExportLiesOnTheNearestVolume(t *testing.T) {
	p, report := params.Parse(json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s",
		"master_node":{"ssh_cp_name":"m","cluster_cp_name":"m"},"worker_node":{"ssh_cp_name":"w"},
		"storage_server":{"ssh_cp_name":"s","nic_cp_name":"s",
			"cinder_volume_setup_params":[{"volume_resource_id":"v1","mount_to":"/volume"},{"volume_resource_id":"v2","mount_to":"/volume2"}],
			"nfs_server_setup_params":[{"export_dir":"/volume","export_to":"10.0.0.7/8"},{"export_dir":"/volume2/a","export_to":"node1"},
				{"export_dir":"/volume","export_to":"node1"}]}}}`), "/additionalParams")
	if p == nil {
		t.Fatal(report.Faults)
	}
	want := []params.Export{
		{Directory: "/volume", To: []string{"10.0.0.0/8"}, Options: defaultOptions, MountTo: "/volume"},
		{Directory: "/volume2/a", To: []string{"node1"}, Options: defaultOptions, MountTo: "/volume2"},
		{Directory: "/volume", To: []string{"node1"}, Options: defaultOptions, MountTo: "/volume"},
	}
	if diff := cmp.Diff(want, p.Cluster.StorageServer.Exports); diff != "" {
		t.Error(diff)
	}
}

func TestTwoRolesMayShareACPNameInAspectsOfTheirOwn(t *testing.T) {
	p, report := params.Parse(json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s",
		"master_node":{"aspect_id":"masters","ssh_cp_name":"CP1","cluster_cp_name":"vip"},
		"worker_node":{"aspect_id":"workers","ssh_cp_name":"CP1"}}}`), "")
	if p == nil {
		t.Error(report.Faults)
	}
}

// Each VDU is also a resource that the package's templates have to make.
func TestRolesMayShareACPNameInVDUsOfTheirOwn(t *testing.T) {
	p, report := params.Parse(json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s",
		"master_node":{"vdu_id":"master","ssh_cp_name":"CP1","cluster_cp_name":"vip"},
		"worker_node":{"vdu_id":"worker","ssh_cp_name":"CP1"},
		"storage_server":{"vdu_id":"storage","ssh_cp_name":"CP1","nic_cp_name":"CP1",
			"cinder_volume_setup_params":[{"volume_resource_id":"v1","mount_to":"/volume"}],
			"nfs_server_setup_params":[{"export_dir":"/volume","export_to":"node1"}]}}}`), "")
	if p == nil {
		t.Fatal(report.Faults)
	}
	if got, want := []string{p.Cluster.Master.VduID, p.Cluster.Worker.VduID, p.Cluster.StorageServer.VduID}, []string{"master", "worker", "storage"}; !slices.Equal(got, want) {
		t.Errorf("VDUs %q, want %q", got, want)
	}
	var servers []string
	for _, use := range params.Resources(p, fault.Root) {
		if use.Kind == params.ServerResource {
			servers = append(servers, use.Name+" at "+use.Pointer)
		}
	}
	const at = " at /k8s_cluster_installation_param/"
	if want := []string{"master" + at + "master_node/vdu_id", "worker" + at + "worker_node/vdu_id", "storage" + at + "storage_server/vdu_id"}; !slices.Equal(servers, want) {
		t.Errorf("servers %q, want %q", servers, want)
	}
}

func TestPointersStartAtTheRootOfTheUsersDocument(t *testing.T) {
	for raw, want := range map[string]string{
		``: "/a~1b/additionalParams", `null`: "/a~1b/additionalParams", `{`: "/a~1b/additionalParams",
		`{"private_registry_installation_param":7}`:                                   "/a~1b/additionalParams/private_registry_installation_param",
		`{"private_registry_installation_param":{"ssh_cp_name":"x","p~/":1,"p~/":2}}`: "/a~1b/additionalParams/private_registry_installation_param/p~0~1",
	} {
		p, report := params.Parse(json.RawMessage(raw), fault.Root.Key("a/b").Key("additionalParams"))
		if p != nil || len(report.Faults) != 1 || report.Faults[0].Pointer != want {
			t.Errorf("%q: %v, want one fault at %s", raw, report.Faults, want)
		}
	}
}

func TestAReportIsBounded(t *testing.T) {
	var many strings.Builder
	for i := range 5000 {
		many.WriteString(strings.Repeat("x", 200) + string(rune('a'+i%26)) + strings.Repeat("y", i%50) + `":1,"`)
	}
	for name, raw := range map[string]string{
		"unknown":    `{"private_registry_installation_param":{"` + many.String() + `ssh_cp_name":"a"}}`,
		"duplicates": `{"private_registry_installation_param":{"ssh_cp_name":"a","x":[` + strings.Repeat(`{"a":1,"a":2},`, 5000) + `1]}}`,
		"wrong":      `{"private_registry_installation_param":{"ssh_cp_name":"a"},"k8s_cluster_installation_param":{"pv_registration_params":[` + strings.Repeat(`7,`, 5000) + `7]}}`,
	} {
		_, report := params.Parse(json.RawMessage(raw), "")
		if n := len(report.Faults) + len(report.Warnings); n < 50 || n > 420 {
			t.Errorf("%s: %d findings", name, n)
		}
	}
}
