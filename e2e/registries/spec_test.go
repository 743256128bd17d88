package registries

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The servers as the requests' parameters name them.
const (
	plainServer  = "192.168.0.10:5000"
	secureServer = "registry.example.com"
)

// The specs' two requests, unchanged: the registry VNF, then a cluster that is connected to
// it and to a registry with TLS and a login.
func TestSpecRequests(t *testing.T) {
	c := results.Begin(t, suite, "spec-requests", "the spec's registry VNF and cluster, verbatim: push from one node, pull on the other by Docker and containerd; a second run does nothing")
	w := newWorld(t)
	host := w.instantiateRegistry(c)

	pair := w.ca.Issue(t, time.Now().Add(time.Hour), secureServer)
	registry.Open(t, w.lab, registry.Options{Address: secureAddress.Addr().String() + ":443", TLS: &pair, Users: map[string]string{"user01": "user01"}})
	master, worker := w.instantiateCluster()
	for _, server := range []string{plainServer, secureServer} {
		master.pulls(worker.pushNew(server))
		worker.pulls(master.pushNew(server))
	}
	for _, m := range []*machine{host, master, worker} {
		m.stays()
	}
}

// instantiateRegistry is the registry VNF from the request to a push that works.
func (w *world) instantiateRegistry(c *results.Case) *machine {
	w.t.Helper()
	var image bytes.Buffer
	server, err := registry.Server(0)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := server.Write(&image); err != nil {
		w.t.Fatal(err)
	}
	v := w.newVNF(registryBody)
	s := v.addServer("registry", "CP1", registryAddress)
	v.apply(registryBody, map[string][]byte{imagePath: image.Bytes()})

	began := time.Now()
	m := w.boot(v.spec(s, lab.EngineOffered, registryAddress))[0]
	m.is(api.ConditionRegistryRunning, api.ReasonRunning)
	// Docker treats 127.0.0.0/8 as insecure by default.
	m.pushNew("127.0.0.1:5000")
	m.run("apparmor_parser", "--version") // without it no container starts under Debian's kernel
	c.Figure("from user_data to a successful push", "%.1f s", time.Since(began).Seconds())
	c.Figure("apt installs the engine in", "%.1f s", m.took("0", api.ConditionRegistryRunning, "install").Seconds())
	v.operate(api.OperationRequest{Operation: api.Instantiate})
	if got := m.run("curl", "--silent", "http://"+plainServer+"/v2/"); got != "{}" {
		w.t.Errorf("GET /v2/ says %q", got)
	}
	if out := m.run("docker", "inspect", "--format", "{{.HostConfig.RestartPolicy.Name}} {{.Config.Image}} {{.HostConfig.Binds}}{{.HostConfig.Mounts}}", "private_registry"); !strings.HasPrefix(out, "always registry") || !strings.Contains(out, "/home/ubuntu/registry") {
		w.t.Errorf("the container is %s", out)
	}
	return m
}

// instantiateCluster is the cluster VNF with one master and one worker, whose
// engines are there before nodehitch.
func (w *world) instantiateCluster() (master, worker *machine) {
	w.t.Helper()
	v := w.newVNF(clusterBody)
	servers := []api.Server{
		v.addServer("master", "masterNode_CP1", masterAddress),
		v.addServer("worker", "workerNode_CP2", workerAddress),
	}
	v.apply(clusterBody, map[string][]byte{scriptPath: []byte("#!/bin/sh\n"), caPath: w.ca.PEM})
	machines := w.boot(v.spec(servers[0], lab.EngineInstalled, masterAddress), v.spec(servers[1], lab.EngineInstalled, workerAddress))
	v.operate(api.OperationRequest{Operation: api.Instantiate})
	for _, m := range machines {
		m.is(api.ConditionRegistriesConnected, api.ReasonConnected)
	}
	return machines[0], machines[1]
}

// apply is what Tacker's hook or an operator does: hitchctl with the request's file,
// unchanged, and the VNF package.
func (v *vnf) apply(body string, files map[string][]byte) {
	v.t.Helper()
	pkg, topology := folder(v.t, files), filepath.Join(v.t.TempDir(), "topology.json")
	data, err := json.Marshal(v.topology)
	if err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(topology, data, 0o600); err != nil {
		v.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"validate", "-f", body, "--package", pkg},
		{"apply", v.id, "-f", body, "--topology", topology, "--package", pkg},
	} {
		if out, err := v.Hitchctl(v.t.Context(), args...); err != nil {
			v.t.Fatalf("%v\n%s", err, out)
		}
	}
}
