package agentcontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	instance = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"
	server   = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	volume   = "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b11"
	size     = 1 << 30
)

// controller is the real one, with its state in a directory of the test.
type controller struct {
	t       *testing.T
	dir     string
	url     string
	api     *client.Controller // as root of its machine
	process *exec.Cmd
}

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "agentcontroller-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "nodehitch-controller")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../../controller")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the controller:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func newController(t *testing.T) *controller {
	t.Helper()
	address := freeAddress(t)
	c := &controller{t: t, dir: t.TempDir(), url: "https://" + address}
	config := fmt.Sprintf("listen: %[1]s\nnames: [127.0.0.1]\nadvertiseURLs: [https://%[1]s]\ndataDirectory: %[2]s/data\n"+
		"socket: %[2]s/socket\nmetricsListen: \"\"\nagentDirectory: %[2]s\nattestation: token\ncadence: {pollSeconds: 5, convergeSeconds: 10}\n", address, c.dir)
	if err := os.WriteFile(filepath.Join(c.dir, "controller.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.api, err = client.New(client.Options{UnixSocket: filepath.Join(c.dir, "socket")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.end(syscall.SIGTERM)
		if log, _ := os.ReadFile(filepath.Join(c.dir, "log")); t.Failed() {
			t.Logf("the controller's log:\n%s", log)
		}
	})
	c.start()
	return c
}

// freeAddress is a port that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

func (c *controller) start() {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	c.process = exec.CommandContext(context.WithoutCancel(c.t.Context()), binary, "serve", "--config", filepath.Join(c.dir, "controller.yaml"))
	c.process.Stdout, c.process.Stderr = log, log
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	until(c.t, "the controller is ready", func() bool {
		return client.Done(c.api.GetReadyz(c.t.Context())) == nil
	})
}

func (c *controller) end(signal syscall.Signal) {
	if c.process == nil {
		return
	}
	_ = c.process.Process.Signal(signal)
	_ = c.process.Wait() // killed is as good as ended
	c.process = nil
}

// put gives the instance its parameters, and the file that they name.
func (c *controller) put(topology *api.Topology) {
	c.t.Helper()
	cp := func(name string) map[string]any { return map[string]any{"ssh_cp_name": name, "nic_cp_name": name} }
	master, storage := cp("master_CP"), cp("storage_server_CP")
	master["cluster_cp_name"] = "master_CP"
	storage["cinder_volume_setup_params"] = []any{map[string]any{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}}
	storage["nfs_server_setup_params"] = []any{map[string]any{"export_dir": "/volume/nfs/pv1", "export_to": "10.10.0.0/24"}}
	params, err := json.Marshal(map[string]any{"k8s_cluster_installation_param": map[string]any{
		"script_path": "Scripts/install.sh", "master_node": master, "worker_node": cp("worker_CP"), "storage_server": storage,
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = client.Read[api.Instance](c.api.PutInstance(c.t.Context(), instance, api.InstanceSpec{AdditionalParams: params, Topology: topology}))
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = client.Read[api.PackageFile](c.api.PutFileWithBody(c.t.Context(), instance, "Scripts/install.sh", nil,
		"application/octet-stream", strings.NewReader("#!/bin/sh\n")))
	if err != nil {
		c.t.Fatal(err)
	}
}

func topology() *api.Topology {
	return &api.Topology{
		StackStatus: "CREATE_COMPLETE",
		Servers: []api.Server{{ID: server, Name: "storage_server", VolumeIds: []string{volume},
			ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{"10.10.0.5"}}}}},
		Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volume, SizeBytes: size}},
	}
}

// operate begins an operation; outcome waits for its end.
func (c *controller) operate(o api.OperationRequest) string {
	c.t.Helper()
	o.Partial = true // there are no masters and workers
	op, err := client.Read[api.Operation](c.api.PostOperation(c.t.Context(), instance, o))
	if err != nil {
		c.t.Fatal(err)
	}
	return op.ID
}

func (c *controller) outcome(id string) *api.Operation {
	c.t.Helper()
	var op *api.Operation
	until(c.t, "the operation ends", func() bool {
		var err error
		if op, err = client.Read[api.Operation](c.api.GetOperation(c.t.Context(), instance, id, nil)); err != nil {
			c.t.Fatal(err)
		}
		return op.State != api.Processing
	})
	return op
}

func (c *controller) node() *api.Node {
	node, err := client.Read[api.Node](c.api.GetNode(c.t.Context(), server))
	if err != nil {
		return &api.Node{}
	}
	return node
}

func (c *controller) joinToken() string {
	c.t.Helper()
	token, err := client.Read[api.JoinToken](c.api.GetJoinToken(c.t.Context(), instance))
	if err != nil {
		c.t.Fatal(err)
	}
	return token.Token
}

func (c *controller) trust() *api.Trust {
	c.t.Helper()
	trust, err := client.Read[api.Trust](c.api.GetTrust(c.t.Context()))
	if err != nil {
		c.t.Fatal(err)
	}
	return trust
}

func (c *controller) revoke() {
	c.t.Helper()
	if _, err := client.Read[api.Node](c.api.RevokeNode(c.t.Context(), server)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *controller) reenrol() {
	c.t.Helper()
	if _, err := client.Read[api.Node](c.api.ReenrolNode(c.t.Context(), server)); err != nil {
		c.t.Fatal(err)
	}
}

// until waits for something that another process brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("it never came to: %s", what)
		case <-tick.C:
		}
	}
}
