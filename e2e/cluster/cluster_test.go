package cluster

import (
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// volumeBytes is the size of the Cinder volume. A cloud knows only whole GiB.
const (
	volumeBytes = 128 << 20
	volumeGiB   = 1
)

// What makes a server what it is, as the request names it.
const (
	storagePoint = "storage_server_CP"
	masterPoint  = "masterNode_CP1"
	workerPoint  = "workerNode_CP2"

	masterAspect = "master_instance"
	workerAspect = "worker_instance"
)

// cluster is an instance of the spec's VNF and its machines.
type cluster struct {
	*world
	*sitetest.VNF
	volume lab.Disk
	shape  shape
	// injected is the CPU time in which the storage server got its user_data last.
	injected time.Duration
}

// shape is what a cluster consists of.
type shape struct {
	workers int
	// installed: the images of masters and workers have the NFS client; the storage
	// server's always has the server.
	installed bool
	// shares: each machine has a share of the processors that is its own.
	shares bool
	// emulated: workers are virtual machines, whose kernel has an NFS client.
	emulated bool
	// cloud is asked by the controller; nil for none.
	cloud *openstacktest.Cloud
}

// newCluster makes an instance of one storage server, one master and two workers. The
// controller does not know it yet, and no machine has booted.
func (w *world) newCluster() *cluster {
	w.T.Helper()
	return w.newClusterOf(shape{workers: 2})
}

func (w *world) newClusterOf(s shape) *cluster {
	w.T.Helper()
	c := &cluster{world: w, VNF: w.NewVNF(), shape: s}
	c.newStack()
	return c
}

// newStack makes all ids and addresses anew, like Heat.
func (c *cluster) newStack() {
	c.T.Helper()
	c.Topology = api.Topology{StackID: uuid.NewString(), StackStatus: "CREATE_COMPLETE"}
	c.newVolume()
	c.Draw("storage_server", storagePoint, "")
	c.Topology.Servers[0].VolumeIds = []string{c.volume.VolumeID}
	c.Draw("master", masterPoint, masterAspect)
	for range c.shape.workers {
		c.Draw("worker", workerPoint, workerAspect)
	}
}

// newVolume makes a blank volume for the storage server.
func (c *cluster) newVolume() {
	c.T.Helper()
	size := int64(volumeBytes)
	if c.shape.cloud != nil {
		size = volumeGiB << 30
	}
	disk, err := c.Lab.NewDisk(uuid.NewString(), size)
	if err != nil {
		c.T.Fatal(err)
	}
	disk.Shared = c.shape.cloud != nil // such a cloud may have it on two servers
	c.volume = disk
	c.Topology.Volumes = []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: disk.VolumeID, SizeBytes: size}}
}

func (c *cluster) storage() *sitetest.Machine   { return c.Of(storagePoint)[0] }
func (c *cluster) master() *sitetest.Machine    { return c.Of(masterPoint)[0] }
func (c *cluster) workers() []*sitetest.Machine { return c.Of(workerPoint) }

// kubeconfig is what the base cluster leaves on a master.
const kubeconfig = "/etc/kubernetes/admin.conf"

// install makes a machine a master of the cluster, as its image or the owner's own
// user_data does.
func (c *cluster) install(m *sitetest.Machine) {
	c.T.Helper()
	admin, err := c.kube.Kubeconfig("kubernetes-admin", "system:masters")
	if err != nil {
		c.T.Fatal(err)
	}
	if err := m.Push(c.T.Context(), kubeconfig, 0o600, admin); err != nil {
		c.T.Fatalf("%s: %v", filepath.Base(kubeconfig), err)
	}
}
