package packaging

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const bin = checkout + "/bin"

// life is that of the agent's package on one machine.
type life struct {
	*node
	now, later string // package files on the machine
	is         running
}

// A worker's package from its installation by hand to its end.
func TestAWorker(t *testing.T) {
	s := sitetest.Open(t, bin, lab.KindNspawn)
	l := &life{node: newWorker(t, s, "worker", true)}
	l.now = l.push(t, current(t).deb(t, agentPackage))[0]
	l.step(t, "installed", "a package starts nothing that is not configured", l.installed)
	l.step(t, "configured", "agent.yaml and `nodehitch-agent install`: the node converges", l.configured)
	if results.Full() {
		l.later = l.push(t, next(t).deb(t, agentPackage))[0]
		l.releases(t)
		l.step(t, "removed", "remove stops the agent and keeps configuration and state", l.removed)
		l.step(t, "installed again", "the package finds its configuration and state; nothing is written but the package, and nobody enrolls", l.installedAgain)
	}
	l.step(t, "purged", "purge removes configuration and state too", l.purged)
}

// releases are a reboot, an upgrade and a downgrade of a converged node.
func (l *life) releases(t *testing.T) {
	t.Helper()
	l.step(t, "rebooted", "after a reboot the node converges and writes nothing", l.rebooted)
	l.step(t, "upgraded", "a later version: nothing is written but the package, and the agent acts on nothing",
		func(t *testing.T) changes { return l.replaced(t, l.later) })
	l.step(t, "downgraded", "the version before: the same", func(t *testing.T) changes { return l.replaced(t, l.now) })
}

func (l *life) installed(t *testing.T) changes {
	c := l.after(t, func() {
		l.mustInstall(t, l.now)
		l.run(t, "systemctl", "start", install.Unit)
	})
	c.onlyIn(t, ofPackage, ofManager, ofUnits)
	l.unconfigured(t, c)
	return c
}

// unconfigured asserts that the package is there and its agent does not run.
func (l *life) unconfigured(t *testing.T, c changes) {
	t.Helper()
	if c.in(ofPackage).none() {
		t.Error("the package has no file")
	}
	if is := l.state(t, install.Unit, "ActiveState"); is != "inactive" {
		t.Errorf("without a configuration the service is %s", is)
	}
	if met := l.state(t, install.Unit, "ConditionResult"); met != "no" {
		t.Errorf("the condition of the unit is met: %s", met)
	}
}

func (l *life) configured(t *testing.T) changes {
	c := l.after(t, func() {
		l.configure(t)
		l.is = l.converged(t, running{})
	})
	c.onlyIn(t, ofUnits, ofState, ofManager)
	if l.is.program != install.PackagedBinary {
		t.Errorf("%s runs", l.is.program)
	}
	return c
}

func (l *life) rebooted(t *testing.T) changes {
	c := l.after(t, func() {
		l.reboot(t)
		l.stays(t)
	})
	c.onlyIn(t, elsewhere) // what a machine writes when it boots
	return c
}

// replaced installs another version over the one that runs.
func (l *life) replaced(t *testing.T, deb string) changes {
	since, actions := l.moment(t), 0
	c := l.after(t, func() {
		l.mustInstall(t, deb)
		l.stays(t)
		actions = l.idle(t, since)
	})
	c.onlyIn(t, ofPackage, ofManager)
	if actions != 0 {
		t.Errorf("the agent has begun %d actions", actions)
	}
	if c.in(ofPackage).none() {
		t.Error("nothing of the package has changed")
	}
	if want := l.installedVersion(t, deb); l.is.version != want {
		t.Errorf("the agent is %s, expected %s", l.is.version, want)
	}
	return c
}

// installedVersion is what the program of the package says that it is.
func (l *life) installedVersion(t *testing.T, deb string) string {
	t.Helper()
	fields := strings.Fields(l.run(t, "sh", "-euc", `cd "$(mktemp -d)" && dpkg-deb --extract "$0" . && .`+install.PackagedBinary+" version", deb))
	if len(fields) == 0 {
		t.Fatalf("the agent of %s does not say its version", deb)
	}
	return fields[len(fields)-1]
}

// stays waits for a new agent to converge, and asserts that it is the same node.
func (l *life) stays(t *testing.T) {
	t.Helper()
	before := l.is
	l.is = l.converged(t, before)
	if l.is.certificate != before.certificate {
		t.Errorf("the node has enrolled again: certificate %s, before %s", l.is.certificate, before.certificate)
	}
	if l.is.program != install.PackagedBinary {
		t.Errorf("%s runs", l.is.program)
	}
}

func (l *life) removed(t *testing.T) changes {
	mounts := l.mounts(t)
	c := l.after(t, func() { l.mustSay(t, "apt-get", "remove", "--yes", agentPackage) })
	c.onlyIn(t, ofPackage, ofManager, ofUnits)
	l.gone(t, mounts)
	return c
}

// gone asserts that no agent is left, and that the machine is what it was otherwise.
func (l *life) gone(t *testing.T, mounts string) {
	t.Helper()
	if left := l.run(t, "sh", "-c", "pgrep -x nodehitch-agent; ls "+install.PackagedBinary+" 2>/dev/null; systemctl is-active "+install.Unit+" | grep -vx -e inactive -e unknown"+"; :"); left != "" {
		t.Errorf("an agent is left: %s", left)
	}
	if now := l.mounts(t); now != mounts {
		t.Errorf("mounts are\n%s\nand were\n%s", now, mounts)
	}
}

func (l *life) installedAgain(t *testing.T) changes {
	since, actions := l.moment(t), 0
	c := l.after(t, func() {
		l.mustInstall(t, l.now)
		l.run(t, install.PackagedBinary, "install")
		l.stays(t)
		actions = l.idle(t, since)
	})
	c.onlyIn(t, ofPackage, ofManager, ofUnits)
	if actions != 0 {
		t.Errorf("the agent has begun %d actions", actions)
	}
	return c
}

func (l *life) purged(t *testing.T) changes {
	mounts := l.mounts(t)
	c := l.after(t, func() { l.mustSay(t, "apt-get", "purge", "--yes", agentPackage) })
	c.onlyIn(t, ofPackage, ofManager, ofUnits, ofState)
	l.gone(t, mounts)
	if left := l.run(t, "sh", "-c", "ls -d /etc/nodehitch /var/lib/nodehitch 2>/dev/null; :"); left != "" {
		t.Errorf("purge has left %q", left)
	}
	return c
}

func (m *machine) mustSay(t *testing.T, argv ...string) string {
	t.Helper()
	said, err := m.says(t, argv...)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return said
}
