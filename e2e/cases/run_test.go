package cases

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestCases runs every case against one controller, each on a machine of its own.
func TestCases(t *testing.T) {
	if missing := lab.Missing(lab.KindVM); len(missing) > 0 {
		t.Skipf("the cases cannot run here: %v", missing)
	}
	cases, err := load()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Open(t.Context(), lab.Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := site.Open(t.Context(), l, "../../bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLog(t, s)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			newRun(t, s, name, c).steps()
			t.Logf("%s (%.1f s)", c.Title, time.Since(started).Seconds())
		})
	}
}

// run is one case while it runs.
type run struct {
	t        *testing.T
	site     *site.Site
	c        Case
	instance string
	server   api.Server
	node     lab.Node
	disks    map[string]lab.Disk
	before   map[string]string // digest of each disk before the first step
}

func newRun(t *testing.T, s *site.Site, name string, c Case) *run {
	t.Helper()
	r := &run{
		t: t, site: s, c: c,
		instance: uuid.NewString(),
		server:   api.Server{ID: uuid.NewString(), Name: name},
		disks:    map[string]lab.Disk{},
		before:   map[string]string{},
	}
	for _, d := range c.Disks {
		disk, err := s.Lab.NewDisk(uuid.NewString(), d.MiB<<20)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, disk, d.Holds)
		r.disks[d.Name] = disk
		r.before[d.Name] = digest(t, disk.Path)
		r.server.VolumeIds = append(r.server.VolumeIds, disk.VolumeID)
	}
	return r
}

// boot makes the VM, tells the controller of it, and injects the agent.
func (r *run) boot(ctx context.Context) error {
	spec := lab.Spec{Name: r.server.Name, ServerID: r.server.ID}
	for _, d := range r.c.Disks {
		spec.Disks = append(spec.Disks, r.disks[d.Name])
	}
	node, err := r.site.Lab.VM(ctx, spec)
	if err != nil {
		return err
	}
	r.node = node
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.showMachine()
		}
		if err := node.Destroy(); err != nil {
			r.t.Error(err)
		}
	})
	if err := r.apply(ctx); err != nil {
		return err
	}
	userData, err := r.site.Hitchctl(ctx, "render", "user-data", r.instance)
	if err != nil {
		return err
	}
	return site.Inject(ctx, node, userData)
}

// apply PUTs the instance: a request in the spec's form made of the case's disks
// and exports, and a topology of this one machine.
func (r *run) apply(ctx context.Context) error {
	r.server.ConnectionPoints = []api.ConnectionPoint{{
		Name: "storage_server_CP", Addresses: []string{r.node.Address().String()},
	}}
	topology := api.Topology{Servers: []api.Server{r.server}, StackStatus: "CREATE_COMPLETE"}
	storage := map[string]any{"ssh_cp_name": "storage_server_CP", "username": "ubuntu", "password": "ubuntu"}
	var volumes, exports []map[string]string
	for _, d := range r.c.Disks {
		told := d.ToldMiB
		if told == 0 {
			told = d.MiB
		}
		topology.Volumes = append(topology.Volumes, api.TopologyVolume{
			ResourceID: d.Name, ID: r.disks[d.Name].VolumeID, SizeBytes: told << 20,
		})
		volumes = append(volumes, map[string]string{"volume_resource_id": d.Name, "mount_to": d.MountTo})
	}
	for _, dir := range r.c.Exports {
		exports = append(exports, map[string]string{"export_dir": dir, "export_to": lab.Subnet.String()})
	}
	storage["cinder_volume_setup_params"] = volumes
	storage["nfs_server_setup_params"] = exports
	node := map[string]any{"ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "username": "u", "password": "p", "cluster_cp_name": "masterNode_CP1"}
	worker := map[string]any{"ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2", "username": "u", "password": "p"}
	request := map[string]any{"flavourId": "simple", "additionalParams": map[string]any{
		"k8s_cluster_installation_param": map[string]any{
			"script_path": "Scripts/install_k8s_cluster.sh", "master_node": node, "worker_node": worker, "storage_server": storage,
		},
	}}
	_, err := r.site.Hitchctl(ctx, "apply", r.instance,
		"-f", r.file("request.json", request), "--topology", r.file("topology.json", topology), "--package", "../demo/package")
	return err
}

// file writes v as JSON into a folder of the test.
func (r *run) file(name string, v any) string {
	r.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// showMachine logs what helps to understand a failure.
func (r *run) showMachine() {
	for _, look := range [][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60"},
		{"findmnt"}, {"exportfs", "-s"},
	} {
		out, err := r.node.Exec(context.WithoutCancel(r.t.Context()), look...)
		r.t.Logf("%v: %v\n%s", look, err, out)
	}
}

func showLog(t *testing.T, s *site.Site) {
	log, err := os.ReadFile(s.LogFile())
	t.Logf("the controller's log (%v):\n%s", err, log[max(0, len(log)-20000):])
}
