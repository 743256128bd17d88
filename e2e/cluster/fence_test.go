package cluster

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The old storage server goes on running where nobody reaches it, and writes to its disk, which
// the new one has too: as if its hypervisor had lost its network. The new one mounts nothing
// until the cloud, which is one in memory, shows that the old one is gone.
func TestOldServerMayWrite(t *testing.T) {
	r := results.Begin(t, suite, "old-server-may-write",
		"the old storage server runs on with its volume, without a network: the new one mounts it only when Nova has no old server and Cinder one attachment, and nothing is lost")
	results.LongOnly(t)
	world, cloud := newCloudWorld(t)
	kubetest.Require(t)
	w := world.keepsIn(shape{workers: 1, emulated: true, cloud: cloud})
	old := w.storage()

	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(old.Server))
	w.whileOldWrites(old)
	if err := old.Node.(lab.Severable).CutOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Leave(old)
	waiting := w.wait()
	s := w.Redraw(old.Server, old.Address())
	w.shows(old.Server)
	w.bootStorage(s, plain)
	done := w.Begin(api.Heal, sitetest.VNFC(s))
	w.withheld(s, "Nova shows it as ACTIVE")

	cloud.Remove(old.Server.ID)
	w.withheld(s, "Nova does not have it, Cinder shows volume "+w.volume.VolumeID+" attached to "+s.ID+" and "+old.Server.ID)
	written := w.oldWrote(old)
	if err := old.PowerCut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := old.Destroy(); err != nil {
		t.Fatal(err)
	}
	w.shows()
	freed := time.Now()
	w.Completes(done)
	w.write("the old server is gone", waiting)
	r.Figure("from the last look of a cloud with the old server to ExportsServed", "%.1f s", w.served(s).Sub(freed).Seconds())
	w.sound(r)
	if got := w.storage().Run("cat", oldFile); !strings.HasPrefix(got, written) {
		t.Errorf("the old server had written %d bytes; the new one reads %d others", len(written), len(got))
		r.Lost(int64(len(written)))
	}
	if err := w.storage().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "e2fsck", "-n", "-f", w.volume.Path).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

// newCloudWorld is a world whose controller has a cloud, which the machines do not see.
func newCloudWorld(t *testing.T) (*world, *openstacktest.Cloud) {
	t.Helper()
	l := labtest.Open(t, lab.KindNspawn, lab.KindVM)
	if err := l.BuildImages(t.Context(), lab.KindNspawn, lab.KindVM); err != nil {
		t.Fatal(err)
	}
	cloud := openstacktest.Start(t)
	at, err := url.Parse(cloud.URL)
	if err != nil {
		t.Fatal(err)
	}
	// It has the same address in the lab's network as on the host.
	listener, err := l.Listen(t.Context(), "tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(at), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
	s := sitetest.OpenIn(t, l, loopback.Bin(t), "attestation: {mode: token}", "openstack: {cloud: fake, cloudsFile: "+cloud.CloudsFile(t)+"}")
	return &world{World: &sitetest.World{Site: s, T: t}, whole: t}, cloud
}

// shows puts the stack into the cloud as it is now; these servers, which it had before, still
// have its volume.
func (c *cluster) shows(before ...api.Server) {
	stack := openstacktest.Stack{ID: c.Topology.StackID, Name: "vnf", Status: c.Topology.StackStatus}
	add := func(name, kind, id string) {
		stack.Resources = append(stack.Resources, openstacktest.Resource{Name: name, Type: kind, PhysicalID: id})
	}
	volume := openstacktest.Volume{ID: c.volume.VolumeID, Name: "storage_server_volume", SizeGiB: volumeGiB}
	for _, s := range c.Topology.Servers {
		port := openstacktest.Port{ID: uuid.NewSHA1(uuid.Nil, []byte(s.VnfcInstanceID)).String(), Name: sitetest.Point(s), DeviceID: s.ID, Addresses: s.ConnectionPoints[0].Addresses}
		c.shape.cloud.Put(openstacktest.Server{ID: s.ID, Name: s.Name}, port)
		add(s.Name, "OS::Nova::Server", s.ID)
		add(port.Name, "OS::Neutron::Port", port.ID)
		if len(s.VolumeIds) > 0 {
			volume.AttachedTo = append(volume.AttachedTo, s.ID)
		}
	}
	for _, s := range before {
		volume.AttachedTo = append(volume.AttachedTo, s.ID)
	}
	add(volume.Name, "OS::Cinder::Volume", volume.ID)
	c.shape.cloud.Put(volume, stack)
}

// oldFile is what the old server itself writes.
const oldFile = "/volume/old"

// whileOldWrites has a program on the storage server write to the volume, each second.
func (w *writers) whileOldWrites(m *sitetest.Machine) {
	w.T.Helper()
	m.Run("systemd-run", "--unit=old-writes", "sh", "-euc", "while :; do date; sync; sleep 1; done >>"+oldFile)
}

// oldWrote waits until the old server has written more, and returns all of it.
func (w *writers) oldWrote(m *sitetest.Machine) (all string) {
	w.T.Helper()
	before := m.Run("cat", oldFile)
	w.Until("the old server writes", func() error {
		if all = m.Run("cat", oldFile); len(all) == len(before) {
			return fmt.Errorf("%d bytes", len(all))
		}
		return nil
	})
	m.Run("sync")
	return all
}

// withheld waits until the volumes are withheld from a server for what the cloud shows, and
// asserts that it has mounted none.
func (w *writers) withheld(s api.Server, shown string) {
	w.T.Helper()
	w.storage().Await("it waits for the old server", func(n *api.Node) error {
		if len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonOldServerMayWrite || !strings.Contains(n.Withheld[0].Message, shown) ||
			n.Status == nil || n.Status.ObservedDigest != n.Digest {
			return fmt.Errorf("withheld is %v, the status %+v", n.Withheld, n.Status)
		}
		return nil
	})
	if out, err := w.storage().Try("grep", "/volume", "/proc/mounts"); err == nil {
		w.T.Errorf("%s has mounted the volume: %s", s.Name, out)
	}
	if o := w.LastOperation(); o.State != api.Processing {
		w.T.Errorf("the END is %+v", o)
	}
}
