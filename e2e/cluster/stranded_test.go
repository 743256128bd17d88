package cluster

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/cluster/nfswriter/report"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// stranded replaces the storage server by one with another address, twice, and walks both ways back.
func (w *writers) stranded(r *results.Case) {
	w.T.Helper()
	before, old := w.volumes(), w.storage()
	w.master().Await("it has reported the claim", func(n *api.Node) error { // nothing is refused for what nobody has reported
		if len(n.Status.BoundPersistentVolumes) != 1 {
			return fmt.Errorf("the status is %+v", n.Status)
		}
		return nil
	})
	elsewhere := w.Address()
	give(old.Server, elsewhere)
	w.onAnotherVolume(old.Server, []string{w.pointsElsewhere(old.Address(), elsewhere)}, sitetest.PhaseStart, sitetest.VNFC(old.Server), oldServerIsOff)
	give(old.Server, old.Address())

	m, waiting := w.strands(old, before)
	w.moves(m, old.Address())
	w.Operate(api.Heal, sitetest.VNFC(m.Server))
	w.write("the old address is back", waiting)
	r.Figure("the old address is given back", "after ExportsServed the first write %+.1f s",
		w.first(waiting, report.Append, report.Lock, report.Deleted).Sub(w.served(m.Server)).Seconds())
	w.sound(r)
	w.inRole()
	w.untouched(before, true)

	m, _ = w.strands(m, before)
	w.unfailed("before the Pods are ended")
	worker := w.workers()[0]
	worker.Run("systemctl", "kill", "--signal=KILL", "nfswriter")
	worker.Run("umount", "--force", "--lazy", mountedAt)
	w.releases(w.bound(before))
	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(m.Server), "--keep-persistent-volumes=false")
	w.none()
	began := time.Now()
	w.Operate(api.Heal, sitetest.VNFC(m.Server))
	r.Figure("withdrawn at another address", "END took %s", seconds(began))
	kubetest.Available(w.T, w.kube, m.Address())
	w.inRole()
	worker.Run("mount", "-t", "nfs", "-o", "vers=4.1,hard", m.Address().String()+":"+w.directory, mountedAt)
	w.lost(r, worker, mountedAt)
}

// strands replaces the storage server by one with another address: it is not told of the volume, the END
// fails with each claim, and nothing of the cluster is changed.
func (w *writers) strands(old *sitetest.Machine, before map[string]kubetest.Volume) (m *sitetest.Machine, waiting time.Time) {
	w.T.Helper()
	_, waiting = w.destroys(old)
	s := w.Redraw(old.Server)
	w.bootStorage(s, plain)
	m = w.storage()
	w.onAnotherVolume(s, nil, sitetest.VNFC(s))
	a := <-w.Begin(api.Heal, sitetest.VNFC(s))
	o, want := w.LastOperation(), w.pointsElsewhere(address(old.Server), m.Address())
	if a.Code != 1 || !strings.Contains(a.Stderr, want) || o.State != api.Failed || o.Error.Type != api.ProblemVolumesStranded {
		w.T.Errorf("the END is %+v, want %q: %s", o, want, a)
	}
	w.untouched(before, true)
	if out, err := m.Try("grep", "/volume", "/proc/mounts"); err == nil {
		w.T.Errorf("%s has mounted the volume: %s", s.Name, out)
	}
	return m, waiting
}

// pointsElsewhere is what is said of the volume that is claimed.
func (w *writers) pointsElsewhere(before, now netip.Addr) string {
	return fmt.Sprintf("PersistentVolume %s, bound by claim %s/%s, points to %s, and the new storage server has %s",
		w.bound(w.volumes()), claimNamespace, claimName, before, now)
}

// onAnotherVolume asserts that no heal begins while the stack has another volume, for that reason and these.
func (w *writers) onAnotherVolume(s api.Server, reasons []string, flags ...string) {
	w.T.Helper()
	on := func(id string) { w.Topology.Volumes[0].ID, s.VolumeIds[0] = id, id } // the stack has the same list
	on(uuid.NewString())
	defer on(w.volume.VolumeID)
	w.refuses(append(reasons, "PersistentVolumes that are kept are on "+w.volume.VolumeID), flags...)
}

// bound is the volume that is bound.
func (w *writers) bound(all map[string]kubetest.Volume) string {
	w.T.Helper()
	for name, v := range all {
		if v.Status.Phase == "Bound" {
			return name
		}
	}
	w.T.Fatalf("none is bound of %v", all)
	return ""
}

// moves gives a machine another address, as a port that is attached to it in place of its own.
func (w *writers) moves(m *sitetest.Machine, to netip.Addr) {
	w.T.Helper()
	m.Run("sh", "-euc", `device=$(ip -4 -o address show to "$1" | cut -d " " -f 2)
		ip address delete "$1" dev "$device"
		ip address add "$2" dev "$device"`, "sh",
		netip.PrefixFrom(m.Address(), lab.Subnet.Bits()).String(), netip.PrefixFrom(to, lab.Subnet.Bits()).String())
	give(m.Server, to)
}

// give changes the address of a server, and of its copy in the stack: they have one list.
func give(s api.Server, a netip.Addr) { s.ConnectionPoints[0].Addresses[0] = a.String() }

// address is the address that a server has now.
func address(s api.Server) netip.Addr { return netip.MustParseAddr(s.ConnectionPoints[0].Addresses[0]) }
