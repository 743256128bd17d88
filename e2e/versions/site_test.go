package versions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// world is a controller and one machine for each role: a storage server, a master and a
// worker of one instance, and a registry of another.
type world struct {
	*sitetest.World
	api *client.Controller
	// bin has the programs that run at present: an upgrade replaces them.
	bin      string
	cluster  instance
	registry instance
	machines []*machine // ordered by role
	asked    int        // how many changes there were
	kept     []kept
}

// instance is one at the controller.
type instance struct {
	id       string
	params   string // additionalParams, with one %d for the number of the change
	topology api.Topology
}

// machine is one with its agent.
type machine struct {
	*sitetest.Machine
	role api.Role
	// reaches are the conditions that can become True in a container, which has no kernel of
	// its own that serves NFS.
	reaches []string
}

// kept is what no upgrade may lose: a file on the machine, and what it holds.
type kept struct {
	on      *machine
	path    string
	content []byte
}

const imagePath = "Files/images/private_registry.tar"

// newWorld boots everything by a controller, and machines by the agent that it carries.
func newWorld(t *testing.T, controller, agents build) *world {
	t.Helper()
	registry.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	if err := errors.Join(l.BuildImages(t.Context(), lab.KindNspawn), l.BuildEngines(t.Context())); err != nil {
		t.Fatal(err)
	}
	w := &world{World: &sitetest.World{T: t}, bin: t.TempDir()}
	if err := errors.Join(controller.put("nodehitch-controller", w.bin), controller.put("hitchctl", w.bin), agents.put("nodehitch-agent-amd64", w.bin)); err != nil {
		t.Fatal(err)
	}
	w.Site = sitetest.OpenIn(t, l, w.bin)
	t.Cleanup(func() {
		for _, m := range w.machines {
			sitetest.Explain(t, m)
		}
	})
	var err error
	if w.api, err = w.API(); err != nil {
		t.Fatal(err)
	}
	w.announce()
	w.boot()
	return w
}

// announce tells the controller of the instances, whose servers are there by now.
func (w *world) announce() {
	w.T.Helper()
	point := func(name, cp, address string) api.Server {
		return api.Server{ID: uuid.NewString(), Name: name, ConnectionPoints: []api.ConnectionPoint{{Name: cp, Addresses: []string{address}}}}
	}
	volume := api.TopologyVolume{ResourceID: "data", ID: uuid.NewString(), SizeBytes: 64 << 20}
	storage := point("storage", "storage_server_CP", "10.10.0.11")
	storage.VolumeIds = []string{volume.ID}
	w.cluster = instance{id: uuid.NewString(), params: clusterParams, topology: api.Topology{StackStatus: "CREATE_COMPLETE", Volumes: []api.TopologyVolume{volume},
		Servers: []api.Server{storage, point("master", "masterNode_CP1", "10.10.0.12"), point("worker", "workerNode_CP2", "10.10.0.13")}}}
	w.registry = instance{id: uuid.NewString(), params: registryParams, topology: api.Topology{StackStatus: "CREATE_COMPLETE",
		Servers: []api.Server{point("registry", "CP1", "10.10.0.14")}}}
	w.change()
	image, err := registry.Server(0)
	if err != nil {
		w.T.Fatal(err)
	}
	var file bytes.Buffer
	if err := image.Write(&file); err != nil {
		w.T.Fatal(err)
	}
	if _, err := client.Read[api.PackageFile](w.api.PutFileWithBody(w.T.Context(), w.registry.id, imagePath, nil, "application/octet-stream", &file)); err != nil {
		w.T.Fatal(err)
	}
}

const (
	clusterParams = `{"k8s_cluster_installation_param": {
		"script_path": "Scripts/install_k8s_cluster.sh",
		"master_node": {"ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "username": "ubuntu", "password": "ubuntu", "cluster_cp_name": "masterNode_CP1"},
		"worker_node": {"ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2", "username": "ubuntu", "password": "ubuntu"},
		"proxy": {"no_proxy": "10.0.0.%d"},
		"storage_server": {"ssh_cp_name": "storage_server_CP", "username": "ubuntu", "password": "ubuntu",
			"cinder_volume_setup_params": [{"volume_resource_id": "data", "mount_to": "/volume"}],
			"nfs_server_setup_params": [{"export_dir": "/volume/nfs", "export_to": "10.10.0.0/24"}]}}}`
	registryParams = `{"private_registry_installation_param": {"ssh_cp_name": "CP1", "ssh_username": "ubuntu", "ssh_password": "ubuntu",
		"image_path": "` + imagePath + `", "proxy": {"no_proxy": "10.0.0.%d"}}}`
)

// change changes every node's document, so that its conditions come from the present agent.
func (w *world) change() {
	w.T.Helper()
	w.asked++
	for _, i := range []*instance{&w.cluster, &w.registry} {
		spec := api.InstanceSpec{AdditionalParams: json.RawMessage(fmt.Sprintf(i.params, w.asked)), Topology: &i.topology}
		if _, err := client.Read[api.Instance](w.api.PutInstance(w.T.Context(), i.id, nil, spec)); err != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *world) boot() {
	w.T.Helper()
	roles := map[string]*machine{
		"storage":  {role: api.RoleStorage, reaches: []string{api.ConditionVolumesMounted}},
		"master":   {role: api.RoleMaster, reaches: []string{api.ConditionNFSClientInstalled, api.ConditionRegistriesConnected, api.ConditionReady}},
		"worker":   {role: api.RoleWorker, reaches: []string{api.ConditionNFSClientInstalled, api.ConditionRegistriesConnected, api.ConditionReady}},
		"registry": {role: api.RoleRegistry, reaches: []string{api.ConditionRegistryRunning, api.ConditionReady}},
	}
	for _, i := range []instance{w.cluster, w.registry} {
		userData := []byte(w.Must("render", "user-data", i.id))
		for _, s := range i.topology.Servers {
			m := roles[s.Name]
			spec := lab.Spec{Name: s.Name, ServerID: s.ID, UserData: userData, NFSClient: m.role == api.RoleMaster || m.role == api.RoleWorker}
			if m.role == api.RoleRegistry {
				spec.Engine = lab.EngineInstalled
			}
			for _, v := range s.VolumeIds {
				disk, err := w.Lab.NewDisk(v, 64<<20)
				if err != nil {
					w.T.Fatal(err)
				}
				spec.Disks = append(spec.Disks, disk)
			}
			node, err := w.Lab.Nspawn(w.T.Context(), spec)
			if err != nil {
				w.T.Fatal(err)
			}
			m.Machine = &sitetest.Machine{Node: node, W: w.World, Server: s}
			if m.role == api.RoleStorage { // see reaches: the package would be of no use
				m.Run("truncate", "-s", "0", "/etc/apt/sources.list")
			}
			w.machines = append(w.machines, m)
		}
	}
}

// upgradeController replaces the controller by another build, on the same state.
func (w *world) upgradeController(b build) {
	w.T.Helper()
	if err := errors.Join(w.Stop(), b.put("nodehitch-controller", w.bin), b.put("hitchctl", w.bin), w.Start(w.T.Context())); err != nil {
		w.T.Fatal(err)
	}
}

// replaceAgents replaces every agent by another build, also by an older one.
func (w *world) replaceAgents(b build) {
	w.T.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, "nodehitch-agent-amd64"))
	if err != nil {
		w.T.Fatal(err)
	}
	const binary = "/usr/local/bin/nodehitch-agent"
	for _, m := range w.machines {
		if err := m.Push(w.T.Context(), binary+".new", 0o755, content); err != nil {
			w.T.Fatal(err)
		}
		m.Run("mv", binary+".new", binary)
		m.Run("systemctl", "restart", "nodehitch-agent")
	}
}

// converged waits until, with an agent of the build, the conditions that a machine of its
// role reaches and these other ones are True for the document in force, and returns the
// node.
func (w *world) converged(m *machine, by build, also ...string) *api.Node {
	w.T.Helper()
	var n *api.Node
	w.Until(fmt.Sprintf("the %s has converged, by the agent %s", m.role, by), func() (err error) {
		if n, err = m.AsKnown(); err != nil {
			return err
		}
		wrong := fmt.Errorf("digest %s, generation %d, withheld %+v, status %+v", n.Digest, n.Generation, n.Withheld, n.Status)
		if n.Status == nil || n.Status.ObservedDigest != n.Digest || n.Status.Facts.AgentVersion != by.version {
			return wrong
		}
		for _, called := range slices.Concat(m.reaches, also) {
			c := n.Status.Condition(called)
			if called == api.ConditionReady && m.role == api.RoleStorage {
				continue
			}
			if c == nil || c.Status != api.ConditionTrue || c.ObservedGeneration != n.Generation {
				return fmt.Errorf("%s: %w", called, wrong)
			}
		}
		return nil
	})
	return n
}

// keep writes files that must not be lost to the machines that hold users' data.
func (w *world) keep() {
	w.T.Helper()
	for role, path := range map[api.Role]string{api.RoleStorage: "/volume/precious", api.RoleRegistry: "/home/ubuntu/registry/precious"} {
		m := w.machines[slices.IndexFunc(w.machines, func(m *machine) bool { return m.role == role })]
		k := kept{on: m, path: path, content: []byte(strings.Repeat(uuid.NewString()+"\n", 1<<10))}
		if err := m.Push(w.T.Context(), path, 0o600, k.content); err != nil {
			w.T.Fatal(err)
		}
		w.kept = append(w.kept, k)
	}
}

// lost counts the bytes that are not there any more.
func (w *world) lost(r *results.Case) {
	w.T.Helper()
	for _, k := range w.kept {
		content, err := k.on.Pull(w.T.Context(), k.path)
		if err == nil && bytes.Equal(content, k.content) {
			r.Lost(0)
			continue
		}
		r.Lost(int64(len(k.content)))
		w.T.Errorf("%s: %s holds %d bytes, %v", k.on.role, k.path, len(content), err)
	}
}
