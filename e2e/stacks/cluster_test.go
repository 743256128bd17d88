package stacks

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The spec's request for a cluster with storage, and its VNF package.
const (
	clusterRequest = "../../shared/params/testdata/persistent-volumes.json"
	clusterPackage = "../cluster/testdata/package"
)

// TestCluster takes the spec's cluster with storage through its life like Tacker: the stack
// is Heat's; it is created, scaled, healed and created again from the project's templates.
func TestCluster(t *testing.T) {
	kubetest.Require(t)
	w := newWorld(t, nil)
	c := &cluster{vnf: w.newVNF("simple-storage", clusterRequest, clusterPackage, map[string]any{"storage_server_volume_size": 1})}
	w.inOrder(
		step{"instantiate", "the spec's request and a stack from the project's templates: every server is found, attested by Nova, and in its role; three PersistentVolumes are Available; cloud-init finds its user_data valid", c.instantiate},
		step{"scale-out", "a server that Heat adds becomes a worker", c.scaleOut},
		step{"scale-in", "a worker that Heat removes is no longer a node", c.scaleIn},
		step{"extend", "the volume is extended in Cinder, once while the server has it and once while no server has it: its filesystem grows with its data, and nobody tells the controller", c.extend},
		step{"in-use", "a volume of somebody else that is bound by the storage server's floating address in Neutron forbids a heal of this server", c.inUse},
		step{"heal-storage", "the storage server is replaced, its volume and address are kept, and so is the data", c.healStorage},
		step{"heal-entire", "the whole VNF is created again, in a stack with another id", c.healEntire},
		step{"terminate", "stack, nodes and instance are gone", c.terminate},
	)
}

// cluster is a VNF whose masters lead to a Kubernetes API: to one beside them, or to their own.
type cluster struct {
	*vnf
	kube *kube.Cluster
	made bool // by nodehitch, of the machines: kube is nil
}

// newKubernetes replaces the Kubernetes API beside the masters by an empty one; they find it as
// soon as they are up.
func (c *cluster) newKubernetes() {
	c.T.Helper()
	if c.made {
		return
	}
	c.kube = kubetest.Replace(c.hyper.t, c.kube, c.Lab)
	admin, err := c.kube.Kubeconfig("kubernetes-admin", "system:masters")
	if err != nil {
		c.T.Fatal(err)
	}
	c.hyper.bring("masterNode", "/etc/kubernetes/admin.conf", admin)
}

var whole = map[api.Role]int{api.RoleStorage: 1, api.RoleMaster: 1, api.RoleWorker: 2}

func (c *cluster) instantiate(r *results.Case) {
	c.newKubernetes()
	began := time.Now()
	c.create()
	r.Figure("stack CREATE_COMPLETE", "%.1f s", time.Since(began).Seconds())
	c.operate(api.Instantiate)
	c.available()
	r.Figure("from the first call of Heat to three volumes Available", "%.1f s", time.Since(began).Seconds())
	c.attested(whole)
	for role := range whole {
		c.run(c.nodes(role)[0], "cloud-init", "schema", "--system")
	}
	c.run(c.one(api.RoleStorage), "sh", "-c", "echo precious > /volume/nfs/pv1/file && sync")
}

func (c *cluster) scaleOut(*results.Case) {
	c.set(map[string]any{"worker_desired": 3})
	c.update()
	c.operate(api.Scale, "--type=SCALE_OUT", "--aspect-id=worker_instance")
	c.attested(map[api.Role]int{api.RoleStorage: 1, api.RoleMaster: 1, api.RoleWorker: 3})
}

// scaleIn updates the stack, as version 2 of Tacker's API does. The scaling policies that
// version 1 signals do nothing in this Heat: see docs/heat-templates.md.
func (c *cluster) scaleIn(*results.Case) {
	c.set(map[string]any{"worker_desired": 2})
	c.update()
	c.operate(api.Scale, "--type=SCALE_IN", "--aspect-id=worker_instance")
	c.attested(whole)
}

func (c *cluster) healStorage(*results.Case) {
	before := c.one(api.RoleStorage)
	vnfc := "--vnfc-instance-id=" + before.ID
	c.operate(api.Heal, "--phase=START", vnfc)
	if out := c.kubectl("get", "pv", "-o", "name"); out != "" {
		c.T.Errorf("after heal_start there are %s", out)
	}
	c.unhealthy("storage_server")
	c.update()
	c.operate(api.Heal, vnfc)
	after := c.one(api.RoleStorage)
	if after.ID == before.ID || !slices.Equal(after.Addresses, before.Addresses) {
		c.T.Errorf("the storage server was %s at %v, is %s at %v", before.ID, before.Addresses, after.ID, after.Addresses)
	}
	if got := c.run(after, "cat", "/volume/nfs/pv1/file"); got != "precious\n" {
		c.T.Errorf("the file holds %q", got)
	}
	c.available()
	c.attested(whole)
}

func (c *cluster) healEntire(*results.Case) {
	before := c.stack
	c.operate(api.Heal, "--phase=START")
	c.remove()
	c.newKubernetes()
	c.create()
	if c.stack == before {
		c.T.Fatal("the stack has the id of the one before")
	}
	c.operate(api.Heal, "--stack-id", c.stack)
	c.available()
	c.attested(whole)
}

func (c *cluster) terminate(*results.Case) {
	c.operate(api.Terminate, "--phase=START")
	c.remove()
	c.operate(api.Terminate)
	for role := range whole {
		if left := c.nodes(role); len(left) > 0 {
			c.T.Errorf("%s: %+v", role, left)
		}
	}
}

func (c *cluster) kubectl(args ...string) string {
	c.T.Helper()
	return kubetest.Kubectl(c.T, c, args...)
}

// Kubectl runs it as the cluster's administrator.
func (c *cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	if !c.made {
		return c.kube.Kubectl(ctx, args...)
	}
	master := c.hyper.machine(c.nodes(api.RoleMaster)[0].ID)
	out, err := master.Exec(ctx, append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
	return strings.TrimSpace(string(out)), err
}

// available waits until the three volumes of the package are Available, each at the
// storage server's address in Neutron.
func (c *cluster) available() {
	c.T.Helper()
	kubetest.Available(c.T, c, netip.MustParseAddr(c.one(api.RoleStorage).Addresses[0]))
}
