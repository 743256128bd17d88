package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// volumeBytes is the size of the Cinder volume.
const volumeBytes = 128 << 20

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
	id, stack string
	topology  api.Topology
	volume    lab.Disk
	// machines are those that are up, in the order of their boot.
	machines []*machine
	servers  int // made so far, for their names
	// disruption is what is killed while operations are in progress.
	disruption *disruption
	shape      shape
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
}

// newCluster makes an instance of one storage server, one master and two workers. The
// controller does not know it yet, and no machine has booted.
func (w *world) newCluster() *cluster {
	w.t.Helper()
	return w.newClusterOf(shape{workers: 2})
}

func (w *world) newClusterOf(s shape) *cluster {
	w.t.Helper()
	c := &cluster{world: w, id: uuid.NewString(), disruption: &disruption{}, shape: s}
	c.newStack()
	return c
}

// newStack makes all ids and addresses anew, like Heat.
func (c *cluster) newStack() {
	c.t.Helper()
	c.stack = uuid.NewString()
	c.topology = api.Topology{StackID: c.stack, StackStatus: "CREATE_COMPLETE"}
	c.newVolume()
	c.draw("storage_server", storagePoint, "")
	c.draw("master", masterPoint, masterAspect)
	for range c.shape.workers {
		c.draw("worker", workerPoint, workerAspect)
	}
}

// newVolume makes a blank volume for the storage server.
func (c *cluster) newVolume() {
	c.t.Helper()
	disk, err := c.Lab.NewDisk(uuid.NewString(), volumeBytes)
	if err != nil {
		c.t.Fatal(err)
	}
	c.volume = disk
	c.topology.Volumes = []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: disk.VolumeID, SizeBytes: volumeBytes}}
}

// draw adds a server to the stack, with an unused address.
func (c *cluster) draw(name, point, aspect string) api.Server {
	c.servers++
	s := api.Server{
		ID: uuid.NewString(), Name: name, VnfcInstanceID: uuid.NewString(), AspectID: aspect,
		ConnectionPoints: []api.ConnectionPoint{{Name: point, Addresses: []string{c.address().String()}}},
	}
	if point == storagePoint {
		s.VolumeIds = []string{c.volume.VolumeID}
	} else {
		s.Name = fmt.Sprintf("%s-%d", name, c.servers)
	}
	c.topology.Servers = append(c.topology.Servers, s)
	return s
}

// redraw puts a new server in the place of one: Tacker keeps the VNFC instance's id.
func (c *cluster) redraw(old api.Server) api.Server {
	c.drop(old)
	point := old.ConnectionPoints[0].Name
	name := map[string]string{storagePoint: "storage_server", masterPoint: "master", workerPoint: "worker"}[point]
	c.draw(name, point, old.AspectID)
	s := &c.topology.Servers[len(c.topology.Servers)-1]
	s.VnfcInstanceID = old.VnfcInstanceID
	return *s
}

// drop takes a server out of the stack.
func (c *cluster) drop(s api.Server) {
	c.topology.Servers = slices.DeleteFunc(slices.Clone(c.topology.Servers), func(o api.Server) bool { return o.ID == s.ID })
}

// apply hands the spec's request, unchanged, and the VNF package to the controller.
func (c *cluster) apply() {
	c.t.Helper()
	c.must("validate", "-f", body, "--package", packageDir)
	c.must("apply", c.id, "-f", body, "--package", packageDir, "--topology", c.file("topology.json", c.topology))
}

// begin runs an operation with the present stack, with disruption if there is any. The
// channel gets its outcome.
func (c *cluster) begin(operation api.OperationType, flags ...string) <-chan said {
	c.t.Helper()
	args := append([]string{"operate", c.id, string(operation), "--wait", "--topology", c.file("topology.json", c.topology)}, flags...)
	machines, ended := slices.Clone(c.machines), make(chan said, 1)
	go func() { ended <- c.disruption.during(c, machines, args) }()
	return ended
}

// try runs an operation to its end.
func (c *cluster) try(operation api.OperationType, flags ...string) said {
	c.t.Helper()
	return <-c.begin(operation, flags...)
}

// operate is try for an operation that has to complete.
func (c *cluster) operate(operation api.OperationType, flags ...string) said {
	c.t.Helper()
	s := c.try(operation, flags...)
	if s.code != 0 {
		c.t.Fatal(s)
	}
	return s
}

// lastOperation is the operation that began last, as the controller has it.
func (c *cluster) lastOperation() api.Operation {
	c.t.Helper()
	var list api.OperationList
	c.until("the controller lists its operations", func() error { // it may be killed just now
		return c.JSON(c.t.Context(), &list, "get", "operations", "--instance", c.id)
	})
	return slices.MaxFunc(list.Items, func(a, b api.Operation) int { return a.StartedAt.Compare(b.StartedAt) })
}

// start is the flag of a START; without it an operation is an END.
const start = "--phase=" + string(api.PhaseStart)

func vnfc(s api.Server) string { return "--vnfc-instance-id=" + s.VnfcInstanceID }

// of is the machines of a role, by the connection point that makes it.
func (c *cluster) of(point string) []*machine {
	var list []*machine
	for _, m := range c.machines {
		if m.server.ConnectionPoints[0].Name == point {
			list = append(list, m)
		}
	}
	return list
}

func (c *cluster) storage() *machine   { return c.of(storagePoint)[0] }
func (c *cluster) master() *machine    { return c.of(masterPoint)[0] }
func (c *cluster) workers() []*machine { return c.of(workerPoint) }

// destroy takes a machine away, as Nova does.
func (c *cluster) destroy(list ...*machine) {
	c.t.Helper()
	for _, m := range slices.Clone(list) {
		if err := m.Destroy(); err != nil {
			c.t.Fatal(err)
		}
		c.machines = slices.DeleteFunc(c.machines, func(o *machine) bool { return o == m })
	}
}

// kubeconfig is what the base cluster leaves on a master.
const kubeconfig = "/etc/kubernetes/admin.conf"

// install makes a machine a master of the cluster, as its image or the owner's own
// user_data does.
func (c *cluster) install(m *machine) {
	c.t.Helper()
	admin, err := c.kube.Kubeconfig("kubernetes-admin", "system:masters")
	if err != nil {
		c.t.Fatal(err)
	}
	if err := m.Push(c.t.Context(), kubeconfig, 0o600, admin); err != nil {
		c.t.Fatalf("%s: %v", filepath.Base(kubeconfig), err)
	}
}
