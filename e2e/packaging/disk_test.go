package packaging

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// A storage server's package on a virtual machine, with a disk that udev finds and exports that
// its kernel serves.
func TestAStorageServersDisk(t *testing.T) {
	results.LongOnly(t)
	s := sitetest.Open(t, bin, lab.KindVM)
	l := &life{node: bootStorage(t, s, s.Lab.VM, lab.Spec{Name: "disk", Cold: true})}
	l.announceAgain(t)
	debs := l.push(t, current(t).deb(t, agentPackage), next(t).deb(t, agentPackage))
	l.now, l.later = debs[0], debs[1]
	l.step(t, "installed", "a package starts nothing that is not configured", l.installed)
	l.step(t, "configured", "agent.yaml and `nodehitch-agent install`: the disk is formatted, mounted, and exported", l.formatted)
	l.volumes = []string{volume}
	l.run(t, "sh", "-euc", "head -c 1M /dev/urandom >"+volume+"/pv1/data; sync")
	holds := l.holds(t)
	l.releases(t)
	l.step(t, "purged", "purge removes the agent and its state; nothing is unmounted, and the data and its exports stay", l.purged)
	l.step(t, "rebooted without it", "what the agent has made needs no agent: the volume is mounted and exported", func(t *testing.T) changes {
		c := l.after(t, func() { l.reboot(t) })
		c.onlyIn(t, elsewhere)
		return c
	})
	if now := l.holds(t); now != holds {
		t.Errorf("the volume holds and exports\n%s\nand did\n%s", now, holds)
	}
}

// formatted configures the agent. Units and exports of volumes are elsewhere.
func (l *life) formatted(t *testing.T) changes {
	c := l.after(t, func() {
		l.configure(t)
		l.is = l.converged(t, running{})
	})
	c.onlyIn(t, ofUnits, ofState, ofVolumes, elsewhere)
	return c
}

// holds is what is on the volume, and how it is exported.
func (l *life) holds(t *testing.T) string {
	t.Helper()
	return l.run(t, "sh", "-euc", "sha256sum "+volume+"/pv1/data; exportfs -s") + "\n" + l.mounts(t)
}
