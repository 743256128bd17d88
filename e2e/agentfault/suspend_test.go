package agentfault

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A virtual machine is suspended with its clocks. When it continues, the agent's timers
// have not moved, and the controller that held its poll is gone.
func TestSuspendedMachine(t *testing.T) {
	r := results.Begin(t, suite, "suspended machine",
		"a VM is suspended with its clocks for a minute; meanwhile the controller is killed, started and given another document: a keepalive finds the dead poll before the poll's own timeout")
	results.LongOnly(t)
	s := sitetest.Open(t, "../../bin", lab.KindVM)
	disk, err := s.Lab.NewDisk(uuid.NewString(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	storage := site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage", VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: "/volume", SizeBytes: 64 << 20}},
		Exports:  []string{"/volume/nfs/pv1"},
	}
	node, err := s.Lab.VM(t.Context(), lab.Spec{Name: "storage", ServerID: storage.Server.ID, Disks: []lab.Disk{disk}})
	if err == nil {
		err = s.Inhabit(t.Context(), &storage, node, t.TempDir())
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, site: s, node: node}
	current := func() error {
		var n api.Node
		if err := s.JSON(t.Context(), &n, "get", "node", storage.Server.ID); err != nil {
			return err
		}
		if n.Status == nil || !n.Ready || n.Status.AppliedDigest != n.Digest {
			return fmt.Errorf("Ready is %v", n.Ready)
		}
		return nil
	}
	m.await("it is Ready", current)
	paused := node.(lab.Pausable)
	if err := paused.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	storage.Exports = append(storage.Exports, "/volume/nfs/pv2")
	if _, err := s.Announce(t.Context(), &storage, node.Address(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute - time.Since(began)) // the suspension itself
	if err := paused.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	m.await("it has the new document", current)
	r.Figure("current after it resumes in", "%.0f s", time.Since(resumed).Seconds())
}
