package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// secretive is a site whose every secret is known.
type secretive struct {
	*target
	lab       *lab.Lab
	inside    []string        // puts a program into the lab's network
	node      lab.Node        // the storage server
	second    *loopback.Agent // the worker's
	instance  string
	volume    string
	operator  string
	viewer    string
	joinToken string
	// joined is another instance, whose master is a member of its cluster.
	joined string
	// given are the secrets that people gave, made are those that were made: keys.
	given, made map[string]string
	// body is the request that held the given ones.
	body string
}

func newSecretive(t *testing.T) *secretive {
	l := labtest.Open(t, lab.KindNspawn)
	if err := l.BuildImages(t.Context(), lab.KindNspawn); err != nil {
		t.Fatal(err)
	}
	inside := l.Command(t.Context(), "x").Args
	inside = inside[:len(inside)-1]
	w := newTarget(t, loopback.Options{Address: "10.10.0.1:8443", Wrap: inside, Settings: map[string]string{
		"log": "{level: debug}", "agentDirectory": loopback.Bin(t), "metricsListen": "10.10.0.1:8643"}})
	w.dial = l.Dial
	s := &secretive{target: w, lab: l, inside: inside, instance: uuid.NewString(), volume: uuid.NewString(), made: map[string]string{}}
	s.operator, s.viewer = w.Token("trust", api.ScopeOperator).Secret, w.Token("trust", api.ScopeViewer).Secret
	s.given = map[string]string{
		"the master's password": "s3cr3t-master-7f2a", "the worker's password": "s3cr3t-worker-91bc", "the storage server's password": "s3cr3t-storage-4de0",
		"the HTTP proxy's password": "s3cr3t-proxy-11aa", "the HTTPS proxy's password": "s3cr3t-proxy-22bb",
		"the registry's password": "s3cr3t-registry-5c5c", "the VIM's password": "s3cr3t-vim-3e3e", "an unknown attribute": "s3cr3t-unknown-8d8d",
		"a package file": "s3cr3t-file-6a6a", "the registry VM's password": "s3cr3t-ssh-0f0f",
	}
	return s
}

// params are the parameters that hold the given secrets.
func (s *secretive) params() map[string]any {
	login := func(cp, whose string) map[string]any {
		return map[string]any{"ssh_cp_name": cp, "nic_cp_name": cp, "username": "ubuntu", "password": s.given["the "+whose+"'s password"]}
	}
	master, storage := login("master_CP", "master"), login("storage_server_CP", "storage server")
	master["cluster_cp_name"] = "master_CP"
	storage["cinder_volume_setup_params"] = []any{map[string]any{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}}
	storage["nfs_server_setup_params"] = []any{map[string]any{"export_dir": "/volume/nfs/pv1", "export_to": "10.10.0.0/24"}}
	return map[string]any{"k8s_cluster_installation_param": map[string]any{
		"script_path": "Scripts/install.sh", "master_node": master, "worker_node": login("worker_CP", "worker"), "storage_server": storage,
		"proxy": map[string]any{"http_proxy": "http://user1:" + s.given["the HTTP proxy's password"] + "@10.10.0.1:3128",
			"https_proxy": "https://user2:" + s.given["the HTTPS proxy's password"] + "@10.10.0.1:3129", "k8s_node_cidr": "10.10.0.0/24"},
		"private_registry_connection_info": []any{map[string]any{"connection_type": "1", "server": "registry.example.com", "username": "user01",
			"password": s.given["the registry's password"], "hosts_string": "10.10.0.20 registry.example.com"}},
		"monitoring_api_token": s.given["an unknown attribute"],
	}}
}

// run is the life of the instance, with the operator's mistakes.
func (s *secretive) run(t *testing.T) {
	const size = 64 << 20
	disk, err := s.lab.NewDisk(s.volume, size)
	if err != nil {
		t.Fatal(err)
	}
	server, worker := uuid.NewString(), uuid.NewString()
	topology := loopback.StorageTopology(server, s.volume, size)
	topology.Servers[0].ConnectionPoints[0].Addresses = []string{lab.Gateway.Next().String()}
	topology.Servers = append(topology.Servers, api.Server{ID: worker, Name: "worker",
		ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{lab.Gateway.String()}}}})
	spec := api.InstanceSpec{AdditionalParams: json.RawMessage(asJSON(t, s.params())), Topology: topology,
		VimConnectionInfo: json.RawMessage(asJSON(t, []any{map[string]any{"id": "vim", "vimType": "openstack",
			"accessInfo": map[string]any{"username": "admin", "password": s.given["the VIM's password"]}}}))}
	s.body = asJSON(t, spec)
	line, path := s.caller(), "/v1/vnf_instances/"+s.instance
	unconnected := s.params()
	delete(unconnected["k8s_cluster_installation_param"].(map[string]any), "private_registry_connection_info")
	spec.AdditionalParams = json.RawMessage(asJSON(t, unconnected))
	must(t, line.call(http.MethodPut, path, asJSON(t, spec), bearer(s.operator)), http.StatusCreated)
	must(t, line.call(http.MethodPut, path+"/files/Scripts/install.sh", "#!/bin/sh\n# "+s.given["a package file"]+"\n", bearer(s.operator),
		"Content-Type: application/octet-stream"), http.StatusCreated)
	s.joinToken = s.JoinToken(s.instance)
	registry := map[string]any{"private_registry_installation_param": map[string]any{"ssh_cp_name": "CP1", "ssh_username": "ubuntu",
		"ssh_password": s.given["the registry VM's password"], "image_path": "Files/images/registry.tar"}}
	must(t, line.call(http.MethodPut, "/v1/vnf_instances/"+uuid.NewString(), asJSON(t, map[string]any{"additionalParams": registry}), bearer(s.operator)), http.StatusCreated)

	userData, err := s.Hitchctl("render", "user-data", s.instance)
	if err != nil {
		t.Fatal(err)
	}
	userData = bytes.Replace(userData, []byte(`"joinToken":`), []byte(`"log": {"level": "debug"}, "joinToken":`), 1)
	s.node, err = s.lab.Nspawn(t.Context(), lab.Spec{Name: "storage", ServerID: server, Address: lab.Gateway.Next(), UserData: userData, Disks: []lab.Disk{disk}})
	if err != nil {
		t.Fatal(err)
	}
	s.Operate(s.instance, api.OperationRequest{Operation: api.Instantiate, DeadlineSeconds: 3600})
	s.waits(t, "the volume is mounted and the exports are tried", func() bool {
		status := s.Node(server).Status
		mounted, served := status.Condition(api.ConditionVolumesMounted), status.Condition(api.ConditionExportsServed)
		return mounted != nil && mounted.Status == api.ConditionTrue && served != nil
	})
	// There may be no NFS server in this kernel, so it is the worker that converges,
	// and keeps the document with the proxy's passwords as its last known good.
	s.second = loopback.StartAgent(t, loopback.AgentOptions{ServerID: worker, Config: s.AgentConfig(s.instance), Wrap: s.inside})
	s.waits(t, "the worker is Ready", func() bool { return s.Node(worker).Ready })
	// Then it gets the login of a registry that does not answer.
	must(t, line.call(http.MethodPut, path, s.body, bearer(s.operator)), http.StatusOK)
	s.waits(t, "the worker has tried the registry", func() bool {
		c := s.Node(worker).Status.Condition(api.ConditionRegistriesConnected)
		return c != nil && c.Status != api.ConditionTrue && strings.Contains(c.Message, "registry.example.com")
	})
}

func must(t *testing.T, got answer, status int) {
	t.Helper()
	if got.err != nil || got.status != status {
		t.Fatalf("got %d %s (%v), want %d", got.status, got.body, got.err, status)
	}
}

// waits is Until with a time limit for machines.
func (s *secretive) waits(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			log, err := s.node.Exec(t.Context(), "journalctl", "--no-pager", "-n", "50", "-u", "nodehitch*")
			t.Fatalf("timed out; expected: %s; the node's journal ends with (%v):\n%s", what, err, log)
		case <-tick.C:
		}
	}
}

// collect adds the secrets that were made: tokens and keys. Of a key it is the
// first line of its PEM.
func (s *secretive) collect(t *testing.T) {
	_, secret, _ := strings.Cut(s.joinToken, ".")
	s.given["the join token"] = secret
	for name, token := range map[string]string{"the operator's token": s.operator, "the viewer's token": s.viewer} {
		_, s.given[name], _ = strings.Cut(token, ".")
	}
	files, err := filepath.Glob(filepath.Join(s.Data(), "pki", "*.pem"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s.made["the key of "+filepath.Base(path)] = firstKeyLine(t, content)
	}
	identity, err := s.node.Pull(t.Context(), "/var/lib/nodehitch/agent/identity.pem")
	if err != nil {
		t.Fatal(err)
	}
	s.made["the node's key"] = firstKeyLine(t, identity)
	if identity, err = os.ReadFile(filepath.Join(s.second.State(), "identity.pem")); err != nil {
		t.Fatal(err)
	}
	s.made["the worker's key"] = firstKeyLine(t, identity)
	seal, err := os.ReadFile(filepath.Join(s.Data(), "seal.key"))
	if err != nil || len(seal) != 32 {
		t.Fatal(len(seal), err)
	}
	s.made["the seal key"] = string(seal)
}

// firstKeyLine is what tells one key from others: the first lines of all of one
// kind are alike, the second is not.
func firstKeyLine(t testing.TB, content []byte) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(content), "PRIVATE KEY-----\n")
	lines := strings.Split(rest, "\n")
	if !ok || len(lines) < 3 || len(lines[1]) < 40 {
		t.Fatal("no private key")
	}
	return lines[1]
}

// all are the given and the made ones.
func (s *secretive) all() map[string]string {
	all := map[string]string{}
	for _, each := range []map[string]string{s.given, s.made} {
		for name, secret := range each {
			all[name] = secret
		}
	}
	return all
}
