package peers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

func TestNoopOfAStorageServer(t *testing.T) {
	r := results.Begin(t, suite, "noop-storage", "a storage server with nothing to do, by nodehitch, cf-agent, puppet and ansible with equal policies, in QEMU")
	Require(t)
	s := sitetest.Open(t, bin, lab.KindVM)
	st, _ := instance(t, s.Lab)
	disk := st.Volumes[0].Disk
	n, err := s.Lab.VM(t.Context(), lab.Spec{Name: "storage", ServerID: st.Server.ID, Disks: []lab.Disk{disk}})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{n, t, "storage"}
	if err := s.Inhabit(t.Context(), &st, n, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	m.converged(s)
	m.installPeers(s.Lab, r, strings.NewReplacer(
		"DEVICEDROPIN", m.copies(), "DEVICE", disk.Link(), "UUIDVALUE", m.do("findmnt", "--noheadings", "--output", "UUID", "/volume"),
	))
	m.equal(
		[]string{"exportfs", "-ua"},
		[]string{"chown", "root:root", "/volume/nfs/pv2"},
		[]string{"systemctl", "disable", "--now", "nfs-server.service", "volume.mount"},
		[]string{"rm", "/etc/exports.d/nodehitch.exports"},
		[]string{"sed", "-i", "s/nosuid,//", "/etc/systemd/system/volume.mount"},
	)
	m.compare(r, 5)
}

// copies puts what nodehitch has written on the machine beside the policies, and returns
// the path of the device's drop-in below the root.
func (m *machine) copies() (dropIn string) {
	m.t.Helper()
	for path := range strings.Lines(m.do("grep", "-rl", "Written by nodehitch-agent", "/etc")) {
		path = strings.TrimSpace(path)
		if strings.Contains(path, ".device.d/") {
			dropIn = strings.TrimPrefix(path, "/")
		}
		to := filepath.Join(folder, "files", path)
		m.do("install", "-D", "-m", "0644", path, to)
	}
	if dropIn == "" {
		m.t.Fatal("there is no drop-in of the device")
	}
	return dropIn
}
