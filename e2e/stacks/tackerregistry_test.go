package stacks

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestTackersRegistry makes the registry and a cluster with storage that is connected to it, by
// the hooks of the v1 driver.
func TestTackersRegistry(t *testing.T) {
	m := newTackerWithEngines(t)
	c := &connected{
		registry: m.newV1("registry", registryRequest, m.registryPackage()),
		client:   m.newV1("simple-storage", clusterRequest, clusterPackage),
	}
	m.inOrder(
		step{"tacker-registry", "the spec's body of the registry, with the two members that name the UserData class, becomes a running registry", c.server},
		step{"tacker-connected", "the spec's body of a cluster with storage that is connected to the registry: two nodes pull what another one pushes, and three volumes are Available", c.cluster},
		step{"tacker-registry-heal", "the registry's server is healed twice: its successor answers at the same address, and the nodes push and pull again; the entire VNF is healed", c.heal},
		step{"tacker-registry-terminate", "both VNFs are terminated", c.terminate},
	)
}

// TestTackersScriptsRegistry makes both by the v2 script.
func TestTackersScriptsRegistry(t *testing.T) {
	m := newTackerWithEngines(t)
	c := &connected{
		registry: m.newV2("registry", registryRequest, m.registryPackage(), "PrivateRegistryVDU"),
		client:   m.newV2("simple-storage", clusterRequest, clusterPackage, clusterServers...),
	}
	m.inOrder(
		step{"tacker-v2-registry", "the same body of the registry becomes a running registry by the package for the v2 API, its UserData class and its script, with no topology typed", c.server},
		step{"tacker-v2-connected", "the same body of the cluster, connected to the registry, by the v2 API: two nodes pull what another one pushes, and three volumes are Available", c.cluster},
		step{"tacker-v2-registry-heal", "the same heals by the script", c.heal},
		step{"tacker-v2-registry-terminate", "both VNFs are terminated by the script", c.terminate},
	)
}

// newTackerWithEngines has machines with Docker.
func newTackerWithEngines(t *testing.T) *tacker {
	t.Helper()
	kubetest.Require(t)
	registry.Require(t)
	w := newWorld(t, nil)
	if err := w.Lab.BuildEngines(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hyper.equip(lab.EngineInstalled, nil)
	return w.newTacker()
}

// connected are both VNFs.
type connected struct {
	registry, client hooked
	address          string
}

// server names the UserData class, which the spec's body does not.
func (c *connected) server(r *results.Case) {
	v := c.registry.asOnboarded()
	v.parameters["lcm-operation-user-data"] = "./UserData/k8s_cluster_user_data.py"
	v.parameters["lcm-operation-user-data-class"] = "KubernetesClusterUserData"
	begun(c.registry, map[api.Role]int{api.RoleRegistry: 1}, r)
	c.address = v.one(api.RoleRegistry).Addresses[0] + ":5000"
}

func (c *connected) cluster(r *results.Case) {
	v := c.client.asOnboarded()
	v.parameters["k8s_cluster_installation_param"].(object)["private_registry_connection_info"] = []object{{"connection_type": "0", "server": c.address}}
	lifeOf(c.client, 1).create(r)
	c.exchange()
}

// exchange pushes an image from a worker, and pulls it at the other nodes.
func (c *connected) exchange() {
	v := c.client.asOnboarded()
	workers := v.nodes(api.RoleWorker)
	name := v.push(workers[0], c.address)
	for _, n := range append(workers[1:], v.one(api.RoleMaster)) {
		v.run(n, "docker", "pull", "--quiet", name)
	}
}

// heal is of the server twice, then of the entire VNF.
func (c *connected) heal(*results.Case) {
	v := c.registry.asOnboarded()
	for range 2 {
		old := v.one(api.RoleRegistry)
		c.registry.heal(func() {}, v.servers()...)
		after := v.one(api.RoleRegistry)
		if after.ID == old.ID || !slices.Equal(after.Addresses, old.Addresses) {
			v.T.Errorf("the registry was %s at %v, is %s at %v", old.ID, old.Addresses, after.ID, after.Addresses)
		}
		v.attested(map[api.Role]int{api.RoleRegistry: 1})
	}
	c.exchange()
	c.registry.heal(func() {})
	v.attested(map[api.Role]int{api.RoleRegistry: 1})
}

func (c *connected) terminate(r *results.Case) {
	for _, h := range []hooked{c.client, c.registry} {
		h.terminate(r)
	}
}
