package packaging

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// controller is a machine with the controller's packages.
type controller struct {
	*machine
	lab        *lab.Lab
	now, later []string // package files on the machine
	worker     lab.Node
	// certificate is the worker's.
	certificate string
}

const (
	service       = "nodehitch-controller.service"
	configuration = "/etc/nodehitch/controller.yaml"
	data          = "/var/lib/nodehitch/controller"
)

// A controller from `apt install` to its purge, with the agent of a worker that it serves.
func TestAController(t *testing.T) {
	l := labtest.Open(t, lab.KindNspawn)
	if err := l.BuildImages(t.Context(), lab.KindNspawn); err != nil {
		t.Fatal(err)
	}
	boot, err := l.Nspawn(t.Context(), lab.Spec{Name: "controller"})
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{machine: &machine{Node: boot}, lab: l}
	c.shownOnFailure(t)
	if err := c.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r, paths := range map[release]*[]string{current(t): &c.now, next(t): &c.later} {
		*paths = c.push(t, r.deb(t, controllerPackage), r.deb(t, agentsPackage), r.deb(t, cliPackage))
	}
	c.step(t, "installed", "a package starts nothing that is not configured", c.installed)
	c.step(t, "started", "names in controller.yaml, systemctl, the first token over the socket", c.started)
	c.step(t, "enrolled a node", "a machine with its user_data becomes a node, by the agent of the package", c.enrolled)
	c.step(t, "backed up", "the service of the backup timer writes a backup, and loses none if it cannot", c.backedUp)
	c.step(t, "rebooted", "after a reboot the agent is back, with the same certificate", c.rebooted)
	c.step(t, "upgraded", "a later version asks no question and keeps controller.yaml; the agent is back", func(t *testing.T) changes { return c.replaced(t, c.later) })
	c.step(t, "downgraded", "the version before: the same", func(t *testing.T) changes { return c.replaced(t, c.now) })
	c.step(t, "removed", "remove stops the controller and keeps store, certificate authority and seal key", c.removed)
	c.step(t, "installed again", "the packages find what was kept; the agent is back", c.installedAgain)
	c.step(t, "purged", "purge removes controller.yaml, keeps store, certificate authority and seal key, and says so", c.purged)
}

func (c *controller) installed(t *testing.T) changes {
	all := c.after(t, func() { c.mustInstall(t, c.now...) })
	all.onlyIn(t, ofPackage, ofManager, ofAccounts, ofState)
	if is := c.state(t, service, "ActiveState"); is != "inactive" {
		t.Errorf("the service is %s after the installation", is)
	}
	if listening := c.run(t, "ss", "-Hltnx", "sport = :8443 or src unix:/run/nodehitch/*"); listening != "" {
		t.Errorf("something listens: %s", listening)
	}
	return all
}

func (c *controller) started(t *testing.T) changes {
	return c.after(t, func() {
		c.run(t, "sh", "-euc", `printf 'names: [%s]\npollSeconds: 10\nconvergeSeconds: 20\nattestation: {mode: token}\n' "$0" >>`+configuration, c.Address().String())
		c.run(t, "systemctl", "enable", "--now", service)
		if mode := c.run(t, "stat", "--format=%a %U:%G", "/run/nodehitch/controller.sock"); mode != "600 root:root" {
			t.Errorf("the socket is %s", mode)
		}
		c.run(t, "hitchctl", "create", "token", "operator", "--write-context", "/root/.config/nodehitch/hitchctl.yaml")
		c.hitchctl(t, "get", "instances")
	})
}

// hitchctl runs the package's hitchctl with the token, over TLS.
func (c *controller) hitchctl(t *testing.T, args ...string) string {
	t.Helper()
	return c.run(t, append([]string{"env", "HOME=/root", "hitchctl"}, args...)...)
}

func (c *controller) enrolled(t *testing.T) changes {
	address := c.Address().Next()
	worker := api.Server{ID: uuid.NewString(), Name: "worker",
		ConnectionPoints: []api.ConnectionPoint{{Name: "workerNode_CP2", Addresses: []string{address.String()}}}}
	i := &site.Storage{
		Instance: uuid.NewString(),
		Server: api.Server{ID: uuid.NewString(), Name: "storage",
			ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{address.Next().String()}}}},
		Volumes: []site.Volume{{Name: "data", Disk: lab.Disk{VolumeID: uuid.NewString()}, MountTo: volume, SizeBytes: 64 << 20}},
		Exports: []string{volume + "/pv1"}, Others: []api.Server{worker},
	}
	return c.after(t, func() {
		for path, v := range map[string]any{"/srv/request.json": i.Request(), "/srv/topology.json": i.Topology()} {
			text, err := json.Marshal(v)
			if err == nil {
				err = c.Push(t.Context(), path, 0o600, text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c.hitchctl(t, "apply", i.Instance, "-f", "/srv/request.json", "--topology", "/srv/topology.json")
		userData := c.hitchctl(t, "render", "user-data", i.Instance)
		began := time.Now()
		var err error
		c.worker, err = c.lab.Nspawn(t.Context(), lab.Spec{Name: "worker", ServerID: worker.ID, Address: address, UserData: []byte(userData), NFSClient: true})
		if err != nil {
			t.Fatal(err)
		}
		c.certificate = c.back(t, began).CertificateSerial
	})
}

// back waits until the worker has reported after a moment, and asserts that it was never
// lost meanwhile.
func (c *controller) back(t *testing.T, since time.Time) (n api.Node) {
	t.Helper()
	sitetest.Until(t, "the agent is back", func() error {
		out, err := c.Exec(t.Context(), "env", "HOME=/root", "hitchctl", "get", "node", c.worker.ServerID(), "-o", "json")
		if err != nil {
			return err // the controller may not be ready yet
		}
		n = api.Node{}
		if err := json.Unmarshal(out, &n); err != nil {
			return err
		}
		if n.State == api.NodeLost {
			t.Error("the node was lost")
		}
		if !n.Ready || n.LastSeenAt == nil || n.LastSeenAt.Before(since) {
			return fmt.Errorf("the node is %+v", n)
		}
		return nil
	})
	return n
}

// same asserts that the worker is back after a moment as the node that it was.
func (c *controller) same(t *testing.T, since time.Time) {
	t.Helper()
	if n := c.back(t, since); n.CertificateSerial != c.certificate {
		t.Errorf("the node has enrolled again: certificate %s, before %s", n.CertificateSerial, c.certificate)
	}
}

func (c *controller) backedUp(t *testing.T) changes {
	const backup, unit = "/var/lib/nodehitch/backups/nodehitch.tar", "nodehitch-backup.service"
	all := c.after(t, func() { c.run(t, "systemctl", "start", unit) })
	all.onlyIn(t, ofState)
	if in := all.in(ofState).added; !slices.Contains(in, backup) {
		t.Errorf("there is no backup among %q", in)
	}
	whole := c.run(t, "sha256sum", backup)
	c.run(t, "systemctl", "stop", "nodehitch-controller.socket", service)
	if out, err := c.says(t, "systemctl", "start", unit); err == nil {
		t.Errorf("there was no controller to back up: %s", out)
	}
	if now := c.run(t, "sha256sum", backup); now != whole {
		t.Errorf("after a night without a controller the backup is %s, and was %s", now, whole)
	}
	c.run(t, "systemctl", "start", "nodehitch-controller.socket", service)
	return all
}

func (c *controller) rebooted(t *testing.T) changes {
	began := time.Now()
	return c.after(t, func() {
		c.reboot(t)
		c.same(t, began)
	})
}

func (c *controller) replaced(t *testing.T, debs []string) changes {
	began, settings, process := time.Now(), c.run(t, "sha256sum", configuration), c.state(t, service, "MainPID")
	all := c.after(t, func() {
		c.mustInstall(t, debs...)
		if now := c.run(t, "sha256sum", configuration); now != settings {
			t.Fatalf("the configuration is %s, and was %s", now, settings)
		}
		c.same(t, began)
	})
	all.onlyIn(t, ofPackage, ofManager, ofState)
	if now := c.state(t, service, "MainPID"); now == process || now == "0" {
		t.Errorf("the controller is process %s, and was %s", now, process)
	}
	return all
}

// kept are the files of the controller that does not run, with their checksums.
func (c *controller) kept(t *testing.T) string {
	t.Helper()
	return c.run(t, "sh", "-euc", "find "+data+" -type f -exec sha256sum {} + | sort -k 2")
}

func (c *controller) removed(t *testing.T) changes {
	all := c.after(t, func() { c.mustSay(t, append([]string{"apt-get", "remove", "--yes"}, controllerPackages...)...) })
	all.onlyIn(t, ofPackage, ofManager, ofUnits, ofState)
	if in := all.in(ofState); len(in.removed)+len(in.added) > 0 {
		t.Errorf("configuration and state: %+v", in)
	}
	c.gone(t)
	for _, name := range []string{"/store.db", "/seal.key", "/pki/root.pem"} {
		c.run(t, "test", "-s", data+name)
	}
	return all
}

var controllerPackages = []string{controllerPackage, agentsPackage, cliPackage}

// gone asserts that no controller is left.
func (c *controller) gone(t *testing.T) {
	t.Helper()
	if left := c.run(t, "sh", "-c", "pgrep -x nodehitch-contr; ls /usr/bin/nodehitch-controller /usr/bin/hitchctl /usr/lib/nodehitch 2>/dev/null; :"); left != "" {
		t.Errorf("there are left: %s", left)
	}
}

func (c *controller) installedAgain(t *testing.T) changes {
	began := time.Now()
	return c.after(t, func() {
		c.mustInstall(t, c.now...)
		c.run(t, "systemctl", "start", service)
		c.same(t, began)
	})
}

func (c *controller) purged(t *testing.T) changes {
	c.run(t, "systemctl", "stop", service)
	before := c.kept(t)
	var said string
	all := c.after(t, func() { said = c.mustSay(t, append([]string{"apt-get", "purge", "--yes"}, controllerPackages...)...) })
	all.onlyIn(t, ofPackage, ofManager, ofUnits, ofState)
	c.gone(t)
	if !strings.Contains(said, data) || !strings.Contains(said, "seal key") {
		t.Errorf("purge does not say what it keeps:\n%s", said)
	}
	if after := c.kept(t); after != before || before == "" {
		t.Errorf("there are left\n%s\nand were\n%s", after, before)
	}
	if _, err := c.Exec(t.Context(), "test", "!", "-e", configuration); err != nil {
		t.Errorf("the configuration is still there: %v", err)
	}
	return all
}

func (c *controller) shownOnFailure(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, argv := range [][]string{
			{"systemctl", "status", "--no-pager", "--full", "nodehitch-*"},
			{"journalctl", "--unit=nodehitch*", "--no-pager", "--lines=40"}, {"tail", "-n", "30", "/var/log/apt/term.log"},
		} {
			out, err := c.Exec(context.WithoutCancel(t.Context()), argv...)
			t.Logf("%v: %v\n%s", argv, err, out)
		}
	})
}
