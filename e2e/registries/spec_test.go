package registries

import (
	"bytes"
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
	registry.Open(t, w.Lab, registry.Options{Address: secureAddress.Addr().String() + ":443", TLS: &pair, Users: map[string]string{"user01": "user01"}})
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
	w.T.Helper()
	var image bytes.Buffer
	server, err := registry.Server(0)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := server.Write(&image); err != nil {
		w.T.Fatal(err)
	}
	v := w.newVNF(registryBody)
	s := v.Draw("registry", "CP1", "", registryAddress.Addr())
	v.Apply(registryBody, folder(w.T, map[string][]byte{imagePath: image.Bytes()}))

	began := time.Now()
	m := v.boot(v.spec(s, lab.EngineOffered, registryAddress))[0]
	m.Says(api.ConditionRegistryRunning, api.ReasonRunning)
	// Docker treats 127.0.0.0/8 as insecure by default.
	m.pushNew("127.0.0.1:5000")
	m.Run("apparmor_parser", "--version") // without it no container starts under Debian's kernel
	c.Figure("from user_data to a successful push", "%.1f s", time.Since(began).Seconds())
	c.Figure("apt installs the engine in", "%.1f s", m.took("0", api.ConditionRegistryRunning, "install").Seconds())
	v.operate(api.Instantiate)
	if got := m.Run("curl", "--silent", "http://"+plainServer+"/v2/"); got != "{}" {
		w.T.Errorf("GET /v2/ says %q", got)
	}
	if out := m.Run("docker", "inspect", "--format", "{{.HostConfig.RestartPolicy.Name}} {{.Config.Image}} {{.HostConfig.Binds}}{{.HostConfig.Mounts}}", "private_registry"); !strings.HasPrefix(out, "always registry") || !strings.Contains(out, "/home/ubuntu/registry") {
		w.T.Errorf("the container is %s", out)
	}
	return m
}

// instantiateCluster is the cluster VNF with one master and one worker, whose
// engines are there before nodehitch.
func (w *world) instantiateCluster() (master, worker *machine) {
	w.T.Helper()
	v := w.newVNF(clusterBody)
	servers := []api.Server{
		v.Draw("master", "masterNode_CP1", "", masterAddress.Addr()),
		v.Draw("worker", "workerNode_CP2", "", workerAddress.Addr()),
	}
	v.Apply(clusterBody, folder(w.T, map[string][]byte{scriptPath: []byte("#!/bin/sh\n"), caPath: w.ca.PEM}))
	machines := v.boot(v.spec(servers[0], lab.EngineInstalled, masterAddress), v.spec(servers[1], lab.EngineInstalled, workerAddress))
	v.operate(api.Instantiate)
	for _, m := range machines {
		m.Says(api.ConditionRegistriesConnected, api.ReasonConnected)
	}
	return machines[0], machines[1]
}
