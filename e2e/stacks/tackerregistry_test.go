package stacks

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestTackersRegistry makes the registry and a cluster with storage that is connected to it, by
// the hooks of the v1 driver.
func TestTackersRegistry(t *testing.T) {
	kubetest.Require(t)
	registry.Require(t)
	w := newWorld(t, nil)
	if err := w.Lab.BuildEngines(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hyper.equip(lab.EngineInstalled)
	m := w.newTacker()
	c := &connected{}
	w.inOrder(
		step{"tacker-registry", "the spec's body of the registry, with the two members that name the UserData class, becomes a running registry", func(r *results.Case) {
			c.server(m.newV1("registry", registryRequest, w.registryPackage()), r)
		}},
		step{"tacker-connected", "the spec's body of a cluster with storage that is connected to the registry: two nodes pull what another one pushes, and three volumes are Available", func(r *results.Case) {
			c.cluster(m.newV1("simple-storage", clusterRequest, clusterPackage), r)
		}},
		step{"tacker-registry-heal", "the registry's server is healed: its successor answers at the same address, and the nodes push and pull again", c.heal},
		step{"tacker-registry-terminate", "both VNFs are terminated", c.terminate},
	)
}

// connected are both VNFs.
type connected struct {
	registry, client *v1
	address          string
}

func (c *connected) server(v *v1, r *results.Case) {
	c.registry = v
	v.parameters["lcm-operation-user-data"] = "./UserData/k8s_cluster_user_data.py"
	v.parameters["lcm-operation-user-data-class"] = "KubernetesClusterUserData"
	began := time.Now()
	v.instantiate()
	r.Figure("from instantiate_start to the end of instantiate_end", "%.1f s", time.Since(began).Seconds())
	v.attested(map[api.Role]int{api.RoleRegistry: 1})
	c.address = v.one(api.RoleRegistry).Addresses[0] + ":5000"
}

func (c *connected) cluster(v *v1, r *results.Case) {
	c.client = v
	v.parameters["k8s_cluster_installation_param"].(object)["private_registry_connection_info"] = []object{{"connection_type": "0", "server": c.address}}
	k := &cluster{vnf: v.vnf}
	k.newKubernetes()
	began := time.Now()
	v.instantiate()
	r.Figure("from instantiate_start to the end of instantiate_end", "%.1f s", time.Since(began).Seconds())
	k.available()
	v.attested(whole)
	c.exchange()
}

// exchange pushes an image from a worker, and pulls it at the other nodes.
func (c *connected) exchange() {
	v := c.client
	workers := v.nodes(api.RoleWorker)
	name := v.push(workers[0], c.address)
	for _, n := range append(workers[1:], v.one(api.RoleMaster)) {
		v.run(n, "docker", "pull", "--quiet", name)
	}
}

func (c *connected) heal(*results.Case) {
	v := c.registry
	old := v.servers()[0]
	request := object{"vnfc_instance_id": []string{v.vnfc(old)}}
	v.operation("HEAL")
	v.hook("heal_start", request, nil)
	v.replace(old, nil)
	v.hook("heal_end", request, nil)
	after := v.one(api.RoleRegistry)
	if address := after.Addresses[0] + ":5000"; after.ID == old.PhysicalID || address != c.address {
		v.t.Errorf("the registry was %s at %s, is %s at %s", old.PhysicalID, c.address, after.ID, address)
	}
	v.attested(map[api.Role]int{api.RoleRegistry: 1})
	c.exchange()
}

func (c *connected) terminate(*results.Case) {
	for _, v := range []*v1{c.client, c.registry} {
		v.operation("TERMINATE")
		v.hook("terminate_start", object{}, nil)
		v.remove()
		v.stack = ""
		v.hook("terminate_end", object{}, nil)
		v.gone()
	}
}
