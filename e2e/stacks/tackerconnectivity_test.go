package stacks

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestTackersConnectivity puts the servers of a cluster into another network, by the hooks of the
// v1 driver and what Tacker sends to Heat between them, and heals one of each kind there.
func TestTackersConnectivity(t *testing.T) {
	kubetest.Require(t)
	w := newWorld(t, nil)
	// Neutron replaces a server's port only for the owner of its network.
	for _, of := range [][3]string{{"own", "10.10.0.32", "10.10.0.159"}, {"other", "10.10.0.160", "10.10.0.239"}} {
		if err := w.account.OwnNetwork(t.Context(), of[0], of[1], of[2]); err != nil {
			t.Fatal(err)
		}
	}
	w.network = "own"
	v := w.newTacker().newV1("complex-storage", clusterRequest, clusterPackage)
	c := &connecting{v1: v, life: lifeOf(v, 3)}
	w.inOrder(
		step{"tacker-connect-instantiate", "a cluster of three masters with storage, by the v1 driver", c.life.create},
		step{"tacker-connect-storage", "the storage server gets another network: its PersistentVolumes are withdrawn, then registered with its new address, where it serves its data; it is healed there", c.storage},
		step{"tacker-connect-workers", "the workers get another network; one is healed there", c.workers},
		step{"tacker-connect-masters", "the masters and their shared address get another network; one is healed there", c.masters},
		step{"tacker-connect-terminate", "nothing of it is left", v.terminate},
	)
}

type connecting struct {
	*v1
	life *life
}

func (c *connecting) storage(r *results.Case) {
	before := c.one(api.RoleStorage)
	volumes := c.instance().Topology.Volumes
	c.run(before, "sh", "-c", "echo old > /volume/nfs/pv2/file && sync")
	c.move(c.life.withdrawn, "storage_server_CP", "storage_server")
	c.life.cluster.available()
	after := c.one(api.RoleStorage)
	if now := c.instance().Topology.Volumes; !slices.Equal(now, volumes) {
		c.T.Errorf("the volumes were %+v, are %+v", volumes, now)
	}
	// The kernel of this machine serves and mounts.
	got := c.run(after, "sh", "-euc", `mkdir -p /mnt/served; mount -t nfs4 "$1":/volume/nfs/pv2 /mnt/served; cat /mnt/served/file; umount /mnt/served`, "sh", after.Addresses[0])
	if got != "old\n" {
		c.T.Errorf("at %s the file holds %q", after.Addresses[0], got)
	}
	c.life.healStorage(r)
}

func (c *connecting) workers(r *results.Case) {
	c.move(func() {}, "workerNode_CP2", "workerNode")
	c.life.healWorker(r)
}

func (c *connecting) masters(r *results.Case) {
	c.move(func() {}, "masterNode_CP1", "masterNode")
	c.life.healMaster(r)
}

// move puts a connection point into the other network. The servers behind it get other addresses and
// stay, and nothing of the others changes.
func (c *connecting) move(between func(), point, vdu string) {
	c.T.Helper()
	places := func() (moved, others []string) {
		for _, s := range c.instance().Topology.Servers {
			place := fmt.Sprint(s.ID, s.VolumeIds)
			for _, p := range s.ConnectionPoints {
				if p.Name == point {
					moved = append(moved, fmt.Sprint(place, p.Addresses))
				} else {
					others = append(others, fmt.Sprint(place, p.Addresses))
				}
			}
		}
		slices.Sort(moved)
		slices.Sort(others)
		return moved, others
	}
	servers := ids(c.named(vdu))
	was, others := places()
	c.connect(between, point, "other")
	is, same := places()
	if now := ids(c.named(vdu)); !slices.Equal(now, servers) {
		c.T.Errorf("the servers were %v, are %v", servers, now)
	}
	if len(is) != len(servers) || slices.ContainsFunc(is, func(p string) bool { return slices.Contains(was, p) }) {
		c.T.Errorf("behind %s were %v, are %v; want other addresses", point, was, is)
	}
	if !slices.Equal(same, others) {
		c.T.Errorf("the other servers were %v, are %v", others, same)
	}
	c.attested(c.life.count)
}

func ids(servers []stackServer) (list []string) {
	for _, s := range servers {
		list = append(list, s.PhysicalID)
	}
	slices.Sort(list)
	return list
}
