package enroll

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// One machine goes through all parts: each begins with the state that the last one left.
func TestLifeOfANode(t *testing.T) {
	w := newWorld(t)
	w.enrolls(t)
	w.survivesTheController(t)
	w.isRevoked(t)
	w.enrollsAgain(t)
	w.isInjectedAgain(t)
}

type world struct {
	site    *site.Site
	storage site.Storage
	node    lab.Node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := sitetest.Open(t, "../../bin", lab.KindNspawn)
	disk, err := s.Lab.NewDisk(uuid.NewString(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return &world{site: s, storage: site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage", VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: "/volume", SizeBytes: 64 << 20}},
		Exports:  []string{"/volume/nfs/pv1"},
	}}
}

// enrolls: the machine boots with user_data and nothing else; the request comes
// first, as in Tacker, when the VM does not exist yet. This kernel may have no NFS server,
// so only the volume is requested here; serving is tested in VMs.
func (w *world) enrolls(t *testing.T) {
	address := lab.Gateway.Next()
	userData, err := w.site.Announce(t.Context(), &w.storage, address, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.node, err = w.site.Lab.Nspawn(t.Context(), lab.Spec{
		Name: "storage", ServerID: w.storage.Server.ID, Address: address,
		UserData: userData, Disks: []lab.Disk{w.storage.Volumes[0].Disk},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.explain(t) })
	if err := w.node.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("power on to cloud-init done: %.1f s", time.Since(began).Seconds())
	w.wait(t, "the volume to be mounted", func(n api.Node) error {
		c := n.Status.Condition(api.ConditionVolumesMounted)
		if c == nil || c.Status != api.ConditionTrue || c.Reason != api.ReasonMounted {
			return fmt.Errorf("%s is %+v", api.ConditionVolumesMounted, c)
		}
		return nil
	})
	t.Logf("power on to a formatted, mounted volume: %.1f s", time.Since(began).Seconds())
	if out, err := w.node.Exec(t.Context(), "findmnt", "-n", "-o", "FSTYPE", "/volume"); err != nil || strings.TrimSpace(string(out)) != "ext4" {
		t.Fatalf("findmnt /volume: %s, %v", out, err)
	}
}

// survivesTheController: the agent finds a controller again that was killed and came back;
// the controller has lost neither the node nor its permit.
func (w *world) survivesTheController(t *testing.T) {
	if err := w.site.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := w.site.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := time.Now()
	w.wait(t, "the agent to come back", func(n api.Node) error {
		if n.LastSeenAt == nil || n.LastSeenAt.Before(restarted) {
			return fmt.Errorf("last seen %v", n.LastSeenAt)
		}
		return nil
	})
	var v api.Volume
	if err := w.site.JSON(t.Context(), &v, "get", "volume", w.storage.Volumes[0].Disk.VolumeID); err != nil {
		t.Fatal(err)
	}
	if v.PermitState != api.PermitFormatted {
		t.Errorf("the permit is %s, expected %s", v.PermitState, api.PermitFormatted)
	}
}

// isRevoked: the held poll ends, the agent keeps what it has and says why it gets nothing
// more.
func (w *world) isRevoked(t *testing.T) {
	if _, err := w.site.Hitchctl(t.Context(), "node", "revoke", w.storage.Server.ID); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the agent to notice", func() error {
		out, _ := w.node.Exec(t.Context(), "nodehitch-agent", "status")
		if !strings.Contains(string(out), "revoked") {
			return fmt.Errorf("status says nothing of it:\n%s", out)
		}
		return nil
	})
	if _, err := w.node.Exec(t.Context(), "findmnt", "/volume"); err != nil {
		t.Errorf("a revoked node gave up its volume: %v", err)
	}
	var n api.Node
	if err := w.site.JSON(t.Context(), &n, "get", "node", w.storage.Server.ID); err != nil {
		t.Fatal(err)
	}
	if n.State != api.NodeRevoked {
		t.Errorf("the node is %s, expected %s", n.State, api.NodeRevoked)
	}
}

// enrollsAgain: only `node reenroll` lets the server in, and only a fresh identity does.
func (w *world) enrollsAgain(t *testing.T) {
	if _, err := w.site.Hitchctl(t.Context(), "node", "reenroll", w.storage.Server.ID); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"systemctl", "stop", "nodehitch-agent"},
		{"mv", "/var/lib/nodehitch/agent", "/var/lib/nodehitch/before"},
		{"systemctl", "start", "nodehitch-agent"},
	} {
		if _, err := w.node.Exec(t.Context(), argv...); err != nil {
			t.Fatal(err)
		}
	}
	w.wait(t, "the rebuilt machine to find its volume", func(n api.Node) error {
		c := n.Status.Condition(api.ConditionVolumesMounted)
		if n.State != api.NodeEnrolled || c == nil || c.Status != api.ConditionTrue {
			return fmt.Errorf("%s, %s is %+v", n.State, api.ConditionVolumesMounted, c)
		}
		return nil
	})
}

// isInjectedAgain: after a power cut the files of cloud-init are not on the disk, but its
// record that it has written them is. In the next boot it writes them again.
func (w *world) isInjectedAgain(t *testing.T) {
	const wants = "/etc/systemd/system/multi-user.target.wants/"
	if _, err := w.node.Exec(t.Context(), "sh", "-euc",
		"rm "+wants+"nodehitch-agent.service "+wants+"nodehitch-bootstrap.service /usr/local/bin/nodehitch-agent; "+
			": >/var/lib/nodehitch/bootstrap.py; test -e /var/lib/cloud/instance/sem/config_write_files; sync"); err != nil {
		t.Fatal(err)
	}
	if err := w.node.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	booted := time.Now()
	w.wait(t, "the agent to be there again", func(n api.Node) error {
		if n.LastSeenAt == nil || n.LastSeenAt.Before(booted) {
			return fmt.Errorf("last seen %v", n.LastSeenAt)
		}
		return nil
	})
}

// wait reads the node from the controller until it is right.
func (w *world) wait(t *testing.T, what string, right func(api.Node) error) {
	t.Helper()
	w.until(t, what, func() error {
		var n api.Node
		if err := w.site.JSON(t.Context(), &n, "get", "node", w.storage.Server.ID); err != nil {
			return err
		}
		return right(n)
	})
}

func (w *world) until(t *testing.T, what string, right func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := right()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-tick.C:
		}
	}
}

func (w *world) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	for _, look := range [][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60"},
	} {
		out, err := w.node.Exec(ctx, look...)
		t.Logf("%v: %v\n%s", look, err, out)
	}
}
