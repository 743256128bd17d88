package packaging

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A storage server, from an unpackaged agent on: its volume, and the journal of its formats.
func TestAStorageServer(t *testing.T) {
	results.LongOnly(t)
	s := sitetest.Open(t, bin, lab.KindNspawn)
	l := &life{node: newStorage(t, s)}
	debs := l.push(t, current(t).deb(t, agentPackage), next(t).deb(t, agentPackage))
	l.now, l.later = debs[0], debs[1]
	l.breakFormats(t)
	if err := site.Inject(t.Context(), l.Node, l.userData); err != nil {
		t.Fatal(err)
	}
	l.interrupted(t, l.storage.Volumes[0])
	l.step(t, "refused", "while a format is unfinished the package does not take over from an unpackaged agent, which continues", l.refused)
	l.mendFormats(t)
	l.is = l.converged(t, running{})
	l.volumes = []string{volume}
	l.step(t, "taken over", "the package takes over from an unpackaged agent: the same node, and nothing else is written", l.takenOver)
	l.releases(t)
	l.step(t, "removed", "remove stops the agent; configuration, state, mounts stay", l.removed)
	l.step(t, "installed again", "the package finds its configuration and state; nothing is written but the package, and nobody enrolls", l.installedAgain)
	l.breakFormats(t)
	l.addVolume(t)
	l.step(t, "purged", "purge keeps the journal of an unfinished format and says so; nothing is unmounted", l.purgedUnfinished)
}

// brokenMkfs comes before the distribution's in the agent's search path.
const brokenMkfs = "/usr/local/sbin/mkfs.ext4"

func (l *life) breakFormats(t *testing.T) {
	t.Helper()
	if err := l.Push(t.Context(), brokenMkfs, 0o755, []byte("#!/bin/sh\nexit 1\n")); err != nil {
		t.Fatal(err)
	}
}

func (l *life) mendFormats(t *testing.T) {
	t.Helper()
	l.run(t, "rm", brokenMkfs)
}

// journal is the path of the record of a volume's format.
func journal(v site.Volume) string {
	return filepath.Join(state.DefaultDirectory, state.JournalDirectory, v.Disk.VolumeID+".json")
}

// interrupted waits until the agent has begun a format that it cannot finish, and has done
// what else there was to do.
func (l *life) interrupted(t *testing.T, v site.Volume) {
	t.Helper()
	sitetest.Until(t, "a format is unfinished", func() error {
		content, err := l.Pull(t.Context(), journal(v))
		if err != nil {
			return err
		}
		var record struct{ Phase string }
		if err := json.Unmarshal(content, &record); err != nil {
			return err
		}
		if record.Phase != "started" {
			return fmt.Errorf("the journal says %q", record.Phase)
		}
		s, err := l.agent(t)
		if err != nil {
			return err
		}
		if c := s.Node.Condition(api.ConditionVolumesMounted); c == nil || c.Reason == api.ReasonMounted || !passed(&s.Node) {
			return fmt.Errorf("it says %q", s.Summary())
		}
		return nil
	})
}

func (l *life) refused(t *testing.T) changes {
	before := l.state(t, install.Unit, "MainPID")
	var said string
	c := l.after(t, func() {
		var err error
		said, err = l.install(t, l.now)
		if failure := (*lab.ExecError)(nil); !errors.As(err, &failure) {
			t.Errorf("the package was installed (%v):\n%s", err, said)
		}
	})
	if !strings.Contains(said, journal(l.storage.Volumes[0])) {
		t.Errorf("it does not name the journal of the unfinished format:\n%s", said)
	}
	c.onlyIn(t, ofManager, ofState) // the agent tries again meanwhile
	if now := l.state(t, install.Unit, "MainPID"); now != before || now == "0" {
		t.Errorf("the unpackaged agent was process %s and is %s", before, now)
	}
	return c
}

func (l *life) takenOver(t *testing.T) changes {
	mounts, since, actions := l.mounts(t), l.moment(t), 0
	c := l.after(t, func() {
		l.mustInstall(t, l.now)
		l.stays(t)
		actions = l.idle(t, since)
	})
	c.onlyIn(t, ofPackage, ofManager, ofUnits, ofOther)
	if want := []string{"/etc/systemd/system/" + install.Unit, install.Binary}; !slices.Equal(slices.Sorted(slices.Values(c.in(ofOther).removed)), want) {
		t.Errorf("of the unpackaged agent %+v has changed, expected that %q are removed", c.in(ofOther), want)
	}
	if actions != 0 {
		t.Errorf("the agent has begun %d actions", actions)
	}
	if now := l.mounts(t); now != mounts {
		t.Errorf("mounts are\n%s\nand were\n%s", now, mounts)
	}
	return c
}

// addVolume gives the storage server a second volume, whose format the agent begins.
func (l *life) addVolume(t *testing.T) {
	t.Helper()
	disk, err := l.site.Lab.NewDisk(uuid.NewString(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Attach(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	l.storage.Server.VolumeIds = append(l.storage.Server.VolumeIds, disk.VolumeID)
	l.storage.Volumes = append(l.storage.Volumes, site.Volume{Name: "second", Disk: disk, MountTo: volume + "2", SizeBytes: 64 << 20})
	l.announceAgain(t)
	l.interrupted(t, l.storage.Volumes[1])
}

func (l *life) purgedUnfinished(t *testing.T) changes {
	mounts, unfinished := l.mounts(t), journal(l.storage.Volumes[1])
	var said string
	c := l.after(t, func() { said = l.mustSay(t, "apt-get", "purge", "--yes", agentPackage) })
	c.onlyIn(t, ofPackage, ofManager, ofUnits, ofState)
	l.gone(t, mounts)
	if !strings.Contains(said, unfinished) {
		t.Errorf("it does not name the journal of the unfinished format:\n%s", said)
	}
	left := strings.Fields(l.run(t, "sh", "-c", "find /etc/nodehitch /var/lib/nodehitch -type f 2>/dev/null; :"))
	others := slices.DeleteFunc(slices.Clone(left), func(path string) bool { return filepath.Dir(path) == filepath.Dir(unfinished) })
	if !slices.Contains(left, unfinished) || len(others) > 0 {
		t.Errorf("purge has left %q, expected %s and nothing outside of its folder", left, unfinished)
	}
	return c
}
