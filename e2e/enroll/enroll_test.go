package enroll

import (
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
	w := newLife(t)
	w.enrolls(t)
	w.survivesTheController(t)
	w.isRevoked(t)
	w.enrollsAgain(t)
	w.isInjectedAgain(t)
}

// life is one machine's, a storage server's.
type life struct {
	*sitetest.World
	storage site.Storage
	node    *sitetest.Machine
}

func newLife(t *testing.T) *life {
	t.Helper()
	w := sitetest.NewWorld(t, lab.KindNspawn)
	disk, err := w.Lab.NewDisk(uuid.NewString(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return &life{World: w, storage: site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage", VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: "/volume", SizeBytes: 64 << 20}},
		Exports:  []string{"/volume/nfs/pv1"},
	}}
}

// enrolls: the machine boots with user_data and nothing else; the request comes
// first, as in Tacker, when the VM does not exist yet. This kernel may have no NFS server,
// so only the volume is requested here; serving is tested in VMs.
func (w *life) enrolls(t *testing.T) {
	address := lab.Gateway.Next()
	userData, err := w.Announce(t.Context(), &w.storage, address, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	node, err := w.Lab.Nspawn(t.Context(), lab.Spec{
		Name: "storage", ServerID: w.storage.Server.ID, Address: address,
		UserData: userData, Disks: []lab.Disk{w.storage.Volumes[0].Disk},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.node = &sitetest.Machine{Node: node, W: w.World, Server: w.storage.Server}
	t.Cleanup(func() { sitetest.Explain(t, node) })
	if err := w.node.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("power on to cloud-init done: %.1f s", time.Since(began).Seconds())
	w.node.Await("the volume to be mounted", func(n *api.Node) error {
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
func (w *life) survivesTheController(t *testing.T) {
	if err := w.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := time.Now()
	w.node.Await("the agent to come back", func(n *api.Node) error {
		if n.LastSeenAt == nil || n.LastSeenAt.Before(restarted) {
			return fmt.Errorf("last seen %v", n.LastSeenAt)
		}
		return nil
	})
	var v api.Volume
	if err := w.JSON(t.Context(), &v, "get", "volume", w.storage.Volumes[0].Disk.VolumeID); err != nil {
		t.Fatal(err)
	}
	if v.PermitState != api.PermitFormatted {
		t.Errorf("the permit is %s, expected %s", v.PermitState, api.PermitFormatted)
	}
}

// isRevoked: the held poll ends, the agent keeps what it has and says why it gets nothing
// more.
func (w *life) isRevoked(t *testing.T) {
	w.Must("node", "revoke", w.storage.Server.ID)
	w.Until("the agent to notice", func() error {
		out, _ := w.node.Try("nodehitch-agent", "status")
		if !strings.Contains(out, "revoked") {
			return fmt.Errorf("status says nothing of it:\n%s", out)
		}
		return nil
	})
	if _, err := w.node.Exec(t.Context(), "findmnt", "/volume"); err != nil {
		t.Errorf("a revoked node gave up its volume: %v", err)
	}
	n, err := w.node.AsKnown()
	if err != nil {
		t.Fatal(err)
	}
	if n.State != api.NodeRevoked {
		t.Errorf("the node is %s, expected %s", n.State, api.NodeRevoked)
	}
}

// enrollsAgain: only `node reenroll` lets the server in, and only a fresh identity does.
func (w *life) enrollsAgain(t *testing.T) {
	w.Must("node", "reenroll", w.storage.Server.ID)
	for _, argv := range [][]string{
		{"systemctl", "stop", "nodehitch-agent"},
		{"mv", "/var/lib/nodehitch/agent", "/var/lib/nodehitch/before"},
		{"systemctl", "start", "nodehitch-agent"},
	} {
		w.node.Run(argv...)
	}
	w.node.Await("the rebuilt machine to find its volume", func(n *api.Node) error {
		c := n.Status.Condition(api.ConditionVolumesMounted)
		if n.State != api.NodeEnrolled || c == nil || c.Status != api.ConditionTrue {
			return fmt.Errorf("%s, %s is %+v", n.State, api.ConditionVolumesMounted, c)
		}
		return nil
	})
}

// isInjectedAgain: after a power cut the files of cloud-init are not on the disk, but its
// record that it has written them is. In the next boot it writes them again.
func (w *life) isInjectedAgain(t *testing.T) {
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
	w.node.Await("the agent to be there again", func(n *api.Node) error {
		if n.LastSeenAt == nil || n.LastSeenAt.Before(booted) {
			return fmt.Errorf("last seen %v", n.LastSeenAt)
		}
		return nil
	})
}
