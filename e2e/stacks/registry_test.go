package stacks

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The spec's requests for a registry and for a cluster that is connected to registries.
const (
	registryRequest  = "../../shared/params/testdata/private-registry.json"
	connectedRequest = "../../shared/params/testdata/registry-connections.json"
)

// TestRegistry makes both VNFs of the specification's: the registry, and a cluster of
// three masters that share an address, all of whose nodes are connected to it.
func TestRegistry(t *testing.T) {
	r := results.Begin(t, suite, "registry", "a registry VNF and a cluster of three masters, both from the project's templates: every node pulls an image that a worker pushes")
	registry.Require(t)
	w := newWorld(t, nil)
	if err := w.Lab.BuildEngines(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hyper.equip(lab.EngineInstalled, nil)
	w.ownNetwork()

	began := time.Now()
	server := w.newVNF("registry", registryRequest, w.registryPackage(), nil)
	server.create()
	server.operate(api.Instantiate)
	server.attested(map[api.Role]int{api.RoleRegistry: 1})
	r.Figure("from the first call of Heat to a running registry", "%.1f s", time.Since(began).Seconds())
	address := server.one(api.RoleRegistry).Addresses[0] + ":5000"

	began = time.Now()
	c := w.newVNF("complex", w.connectedTo(address), clusterPackage, nil)
	c.create()
	c.operate(api.Instantiate)
	c.attested(map[api.Role]int{api.RoleMaster: 3, api.RoleWorker: 2})
	r.Figure("from there to a cluster of five connected nodes", "%.1f s", time.Since(began).Seconds())
	masters, workers := c.nodes(api.RoleMaster), c.nodes(api.RoleWorker)
	name := c.push(workers[0], address)
	for _, n := range append(masters, workers[1]) {
		c.run(n, "docker", "pull", "--quiet", name)
	}
}

// registryPackage is a VNF package with the registry's image.
func (w *world) registryPackage() (folder string) {
	w.T.Helper()
	image, err := registry.Server(0)
	if err != nil {
		w.T.Fatal(err)
	}
	folder = w.T.TempDir()
	path := filepath.Join(folder, "Files/images/private_registry.tar")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), image.WriteFile(path)); err != nil {
		w.T.Fatal(err)
	}
	return folder
}

// connectedTo is the spec's request with this registry in place of its own, and the
// address of the three masters as the cluster's.
func (w *world) connectedTo(server string) (path string) {
	w.T.Helper()
	var request map[string]any
	w.readJSON(connectedRequest, &request)
	request["flavourId"] = "complex"
	cluster := request["additionalParams"].(map[string]any)["k8s_cluster_installation_param"].(map[string]any)
	cluster["private_registry_connection_info"] = []any{map[string]any{"connection_type": "0", "server": server}}
	cluster["master_node"].(map[string]any)["cluster_cp_name"] = "vip_CP"
	return w.File("request.json", request)
}

// push makes an image on a node and pushes it to the registry; it returns its name.
func (v *vnf) push(n api.Node, server string) (name string) {
	v.T.Helper()
	name = server + "/from/worker:1"
	var file bytes.Buffer
	if err := registry.Small(name, 64<<10, 1).Write(&file); err != nil {
		v.T.Fatal(err)
	}
	const path = "/var/tmp/image.tar"
	if err := v.hyper.machine(n.ID).Push(v.T.Context(), path, 0o600, file.Bytes()); err != nil {
		v.T.Fatal(err)
	}
	v.run(n, "docker", "load", "--quiet", "--input", path)
	v.run(n, "docker", "push", "--quiet", name)
	return name
}
