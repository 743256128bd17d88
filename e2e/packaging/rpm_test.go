package packaging

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// No system with rpm can be had here, so this is rpm and dnf on a Debian machine: its rpm
// database and a local repository are all that they know. What is real: rpm, dnf, the
// scriptlets, systemd, and the agent, which finds no apt-get and uses dnf.
func TestRPM(t *testing.T) {
	results.LongOnly(t)
	s := sitetest.Open(t, bin, lab.KindNspawn)
	n := newWorker(t, s, "rpm", false)
	if err := s.Lab.InstallPackages(t.Context(), n.Node, "rpm", "rpm", "dnf", "createrepo-c"); err != nil {
		t.Fatal(err)
	}
	n.becomesRPM(t)
	l := &life{node: n}
	l.offer(t, current(t))
	l.step(t, "installed by dnf", "a package starts nothing that is not configured", l.installedByDNF)
	l.add(t, "nfs-utils") // dnf's copy of the metadata does not have it
	l.step(t, "configured with dnf", "the agent installs the NFS client by dnf, which has to fetch the metadata again", l.configured)
	l.step(t, "beside another dnf", "the agent waits for another dnf, and then installs what is missing", l.besideAnotherDNF)
	later := next(t)
	l.offer(t, later)
	l.step(t, "upgraded by dnf", "a later version: nothing is written but the package, and the agent acts on nothing", l.upgradedByDNF)
	l.step(t, "erased by dnf", "erase stops the agent and keeps configuration and state", l.erasedByDNF)
}

// repository is the machine's only one.
const repository = "/srv/repository"

// becomesRPM takes apt-get away and gives the machine what a system with rpm has: a
// database where Fedora has it, a repository, and packages for what the machine has by
// dpkg, as far as nodehitch's packages require it.
func (n *node) becomesRPM(t *testing.T) {
	t.Helper()
	n.run(t, "mv", "/usr/bin/apt-get", "/usr/bin/apt-get.away")
	for path, content := range map[string]string{
		"/etc/rpm/macros":           "%_dbpath /usr/lib/sysimage/rpm\n",
		"/etc/yum.repos.d/lab.repo": "[lab]\nname=lab\nbaseurl=file://" + repository + "\ngpgcheck=0\n",
		"/srv/system.spec":          stub("system", "Provides: /bin/sh, /usr/bin/sh, systemd, e2fsprogs, util-linux", ""),
		"/srv/nfs-utils.spec":       stub("nfs-utils", "", ""),
		"/srv/slow.spec":            stub("slow", "", "%pre\nread -r line <"+slow),
	} {
		if err := n.Push(t.Context(), path, 0o644, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	n.add(t, "system")
	n.run(t, "dnf", "install", "--assumeyes", "system")
}

// slow is the pipe for which the installation of the package slow waits.
const slow = "/run/slow"

// stub is the spec of a package without files.
func stub(name, tags, scripts string) string {
	return fmt.Sprintf("Name: %s\nVersion: 1\nRelease: 1\nSummary: stands for a package of the distribution\nLicense: none\nBuildArch: noarch\n%s\n%%description\n%s\n%%files\n", name, tags, scripts)
}

// add builds a package without files into the repository.
func (n *node) add(t *testing.T, name string) {
	t.Helper()
	n.run(t, "rpmbuild", "-bb", "--define", "_rpmdir "+repository, "/srv/"+name+".spec")
	n.run(t, "createrepo_c", "--quiet", repository)
}

// offer puts the packages of a release into the repository.
func (l *life) offer(t *testing.T, r release) {
	t.Helper()
	l.run(t, "mv", l.push(t, r.rpm(t, agentPackage))[0], repository)
	l.run(t, "createrepo_c", "--quiet", repository)
}

func (l *life) installedByDNF(t *testing.T) changes {
	c := l.after(t, func() {
		l.mustSay(t, "dnf", "install", "--refresh", "--assumeyes", agentPackage)
		l.run(t, "systemctl", "start", install.Unit)
	})
	c.onlyIn(t, ofPackage, ofManager, ofUnits)
	l.unconfigured(t, c)
	return c
}

// besideAnotherDNF starts the agent without the NFS client while another dnf is in a
// transaction.
func (l *life) besideAnotherDNF(t *testing.T) changes {
	l.add(t, "slow")
	l.run(t, "mkfifo", slow)
	c := l.after(t, func() {
		l.run(t, "systemctl", "stop", install.Unit)
		l.run(t, "rpm", "--erase", "--nodeps", "nfs-utils")
		l.run(t, "systemd-run", "--quiet", "--unit=slow", "dnf", "install", "--refresh", "--assumeyes", "slow")
		sitetest.Until(t, "dnf is in its transaction", func() error {
			_, err := l.Exec(t.Context(), "pgrep", "--full", "read -r line|sh /var/tmp/rpm-tmp")
			return err
		})
		l.run(t, "systemctl", "start", install.Unit)
		l.finds(t, api.ReasonPackageManagerBusy)
		l.run(t, "sh", "-c", "echo >"+slow)
		l.stays(t)
	})
	c.onlyIn(t, ofManager)
	l.run(t, "rpm", "--query", "nfs-utils", "slow")
	return c
}

// finds waits until the agent says so of the NFS client.
func (l *life) finds(t *testing.T, reason string) {
	t.Helper()
	sitetest.Until(t, "the NFS client: "+reason, func() error {
		s, err := l.agent(t)
		if err != nil {
			return err
		}
		if c := s.Node.Condition(api.ConditionNFSClientInstalled); c == nil || c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

func (l *life) upgradedByDNF(t *testing.T) changes {
	since, actions, before := l.moment(t), 0, l.is
	c := l.after(t, func() {
		l.mustSay(t, "dnf", "upgrade", "--refresh", "--assumeyes", agentPackage)
		l.stays(t)
		actions = l.idle(t, since)
	})
	c.onlyIn(t, ofPackage, ofManager)
	if actions != 0 {
		t.Errorf("the agent has begun %d actions", actions)
	}
	if l.is.version == before.version {
		t.Errorf("the agent is still %s", before.version)
	}
	return c
}

func (l *life) erasedByDNF(t *testing.T) changes {
	mounts := l.mounts(t)
	var said string
	c := l.after(t, func() { said = l.mustSay(t, "dnf", "remove", "--assumeyes", agentPackage) })
	c.onlyIn(t, ofPackage, ofManager, ofUnits)
	l.gone(t, mounts)
	if strings.Contains(said, "scriptlet failed") {
		t.Errorf("a scriptlet has failed:\n%s", said)
	}
	return c
}
