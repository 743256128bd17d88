package powercut

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	upgradeCuts = 10
	// The agents' versions are as long as each other, for as many upgrades as there may be.
	ofController, ofAgent = "v2.0.0", "v1.100.0"
	agentBinary           = "/usr/local/bin/nodehitch-agent"
)

func TestPowerCutsOverAnAgentUpgrade(t *testing.T) {
	c := results.Begin(t, "powercut", "agent-upgrade", "the power fails at random moments of an agent's upgrade: the old build or the new one is there and runs, in the end the new one, with the same identity and no acknowledged byte lost")
	results.LongOnly(t)
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	cuts := int(number(t, envCuts, upgradeCuts))
	t.Logf("%s=%d", envSeed, seed)
	bin := t.TempDir()
	hitchctl, err := os.ReadFile("../../bin/hitchctl")
	if err != nil {
		t.Fatal(err)
	}
	build.Put(t, filepath.Join(bin, "hitchctl"), hitchctl)
	build.Compile(t, filepath.Join(bin, "nodehitch-controller"), build.Controller, ofController)
	build.Compile(t, filepath.Join(bin, carried), build.Agent, ofAgent)
	program, err := os.ReadFile(filepath.Join(bin, carried))
	if err != nil {
		t.Fatal(err)
	}
	s := sitetest.Open(t, bin, lab.KindVM)
	l, err := newLife(t.Context(), t, s, "upgrade-"+uuid.NewString()[:8], rand.New(rand.NewPCG(seed, 4)))
	if err != nil {
		t.Fatal(err)
	}
	u := &upgrading{life: l, bin: bin, program: program, version: ofAgent, sum: sumOf(program)}
	u.target = &target{chance: l.chance, lab: s.Lab, node: l.node, at: u.stage, names: [...]string{"not begun", "download", "switch", "probation", "over"}}
	err = u.through(t.Context(), cuts)
	if err != nil {
		l.show()
	}
	if err := errors.Join(err, l.end()); err != nil {
		t.Error(err)
	}
	c.Lost(u.lost)
	if err := u.target.enough(); err != nil {
		t.Error(err)
	}
	if u.oldRan == 0 || u.newRan == 0 {
		t.Errorf("after %d cuts the old build started, after %d the new one; expected both", u.oldRan, u.newRan)
	}
	if v := l.newest(); v.readBack < enoughRecords {
		t.Errorf("%d acknowledged records were looked for after the cuts, at least %d have to be", v.readBack, enoughRecords)
	}
	c.Figure("seed", "%d", seed)
	c.Figure("cuts", "%d; hit: %s", u.target.cuts(), u.target)
	c.Figure("the boot after a cut begins with", "the old build %d times, the new one %d times", u.oldRan, u.newRan)
	c.Figure("upgrades", "%d, %d of them over before the moment of their cut", u.upgrades, u.target.early)
	c.Figure("CPU time of the machine", "%s", u.target.lengths())
	c.Figure("records", "%d acknowledged and read back after the last cut", l.newest().readBack)
}

// carried is the agent in the controller's agentDirectory.
const carried = "nodehitch-agent-amd64"

// upgrading is a life whose agent upgrades itself again and again.
type upgrading struct {
	*life
	bin     string
	program []byte // of ofAgent
	// version is the one that has to run in the end; sum is its SHA-256, and previous that of
	// the build before.
	version, sum, previous string
	upgrades               int
	// kept is what no upgrade may change.
	kept string
	// mark is where on the console the present upgrade or boot begins, whichever is later.
	mark   int
	target *target
	// oldRan and newRan are how many boots after a cut began with which build.
	oldRan, newRan int
	lost           int64
}

// The stages of an upgrade.
const (
	download  = first
	switching = second // the build is there and checked
	probation = third
)

// through upgrades the agent without a cut, and then again and again with cuts.
func (u *upgrading) through(ctx context.Context, cuts int) error {
	injected, err := u.inject(ctx)
	if err == nil {
		err = <-injected
	}
	if err == nil {
		err = u.converge(ctx)
	}
	if err == nil {
		err = errors.Join(strictRoot(ctx, u.node), u.showStarts(ctx))
	}
	if err == nil {
		err = u.next(ctx)
	}
	if err == nil {
		err = u.target.reach(ctx, done)
	}
	if err != nil {
		return fmt.Errorf("without a cut: %w", err)
	}
	if err := u.target.through(ctx, cuts, u.next, u.cutOff); err != nil {
		return err
	}
	return u.settled(ctx)
}

// showStarts makes the agent's log visible on the console, and before each start the build
// that starts.
func (u *upgrading) showStarts(ctx context.Context) error {
	const dropIn = "/etc/systemd/system/nodehitch-agent.service.d/console.conf"
	const text = `[Service]
StandardError=journal+console
ExecStartPre=-/bin/sh -c 'echo "lab: starts $(sha256sum <` + agentBinary + `)" >/dev/ttyS0'
`
	if err := u.node.Push(ctx, dropIn, 0o644, []byte(text)); err != nil {
		return err
	}
	_, err := u.node.Exec(ctx, "sh", "-euc", "systemctl daemon-reload; systemctl restart nodehitch-agent; sync")
	if err != nil {
		return err
	}
	u.kept, err = u.keeps(ctx)
	return err
}

// keeps is what no upgrade may change: the identity, as the agent and the controller know it,
// and the journal.
func (u *upgrading) keeps(ctx context.Context) (string, error) {
	sums, err := u.node.Exec(ctx, "sh", "-euc", "cd /var/lib/nodehitch/agent; sha256sum identity.pem machine.json journal/*")
	if err != nil {
		return "", err
	}
	n, err := client.Read[api.Node](u.api.GetNode(ctx, u.storage.Server.ID, nil))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%senrolled at %s, certificate %s", sums, n.EnrolledAt, n.CertificateSerial), nil
}

// next waits until the upgrade before is over, and wants another version, while records are
// written.
func (u *upgrading) next(ctx context.Context) error {
	if err := u.settled(ctx); err != nil {
		return err
	}
	if u.boot.writing == nil {
		if err := u.write(ctx); err != nil {
			return err
		}
	}
	if err := u.newMark(); err != nil {
		return err
	}
	u.upgrades++
	u.version = fmt.Sprintf("v1.%d.0", 100+u.upgrades)
	program := build.Of(u.t, u.program, ofAgent, u.version)
	u.previous, u.sum = u.sum, sumOf(program)
	build.Put(u.t, filepath.Join(u.bin, carried), program)
	_, err := client.Read[api.AgentRollout](u.api.UpgradeAgents(ctx, api.AgentUpgradeRequest{Version: u.version}))
	return err
}

func sumOf(program []byte) string {
	sum := sha256.Sum256(program)
	return hex.EncodeToString(sum[:])
}

// newMark notes where on the console something new begins.
func (u *upgrading) newMark() error {
	console, err := u.node.Console()
	u.mark = len(console)
	return err
}

// marks are the lines on the console that tell of an upgrade.
var marks = regexp.MustCompile(`lab: starts ([0-9a-f]{64})|event=agent\.upgrade reason=(Downloading|Switching) |event=(agent\.upgraded) `)

// stage is how far the upgrade is, by what the console has said last since the mark.
func (u *upgrading) stage(context.Context) (stage, error) {
	console, err := u.node.Console()
	all := marks.FindAllSubmatch(console[min(u.mark, len(console)):], -1)
	if err != nil || len(all) == 0 {
		return idle, err
	}
	switch last := all[len(all)-1]; {
	case string(last[1]) == u.sum:
		return probation, nil
	case string(last[2]) == "Downloading":
		return download, nil
	case string(last[2]) == "Switching":
		return switching, nil
	case last[3] != nil:
		return done, nil
	}
	return idle, nil
}

// cutOff cuts the power, notes what that has hit, boots the machine, and notes which build
// that begins with.
func (u *upgrading) cutOff(ctx context.Context) error {
	if err := u.cut(ctx); err != nil {
		return err
	}
	hit, err := u.target.count(ctx)
	if err != nil {
		return err
	}
	if err := u.newMark(); err != nil {
		return err
	}
	if err := u.again(ctx); err != nil {
		return err
	}
	var starts string
	err = u.target.until(ctx, "the agent to start", glance, func() error {
		console, err := u.node.Console()
		found := regexp.MustCompile(`lab: starts ([0-9a-f]{64})`).FindSubmatch(console[u.mark:])
		if err != nil || found == nil {
			return errors.Join(err, errors.New("the console shows no start of the agent"))
		}
		starts = string(found[1])
		return nil
	})
	if err != nil {
		return err
	}
	u.t.Logf("cut of the upgrade to %s; hit: %s; the new build is there: %v", u.version, u.target.names[hit], starts == u.sum)
	switch {
	case starts == u.sum && hit >= switching:
		u.newRan++
	case starts == u.previous && hit <= switching:
		u.oldRan++
	default:
		return fmt.Errorf("after a cut that hit the %s the agent has the SHA-256 %s; the old build has %s, the new one %s", u.target.names[hit], starts, u.previous, u.sum)
	}
	return nil
}

// settled waits until all is well: the machine is as it should be, by the wanted build, and
// nothing of the upgrade is left.
func (u *upgrading) settled(ctx context.Context) error {
	if err := u.settle(ctx, &u.lost); err != nil {
		return err
	}
	if err := u.target.until(ctx, "the agent to be "+u.version, time.Second, func() error { return u.upgraded(ctx) }); err != nil {
		return err
	}
	kept, err := u.keeps(ctx)
	if err == nil && kept != u.kept {
		err = fmt.Errorf("the identity or the journal has changed from\n%s\nto\n%s", u.kept, kept)
	}
	return err
}

func (u *upgrading) upgraded(ctx context.Context) error {
	n, err := client.Read[api.Node](u.api.GetNode(ctx, u.storage.Server.ID, nil))
	if err != nil {
		return err
	}
	if s := n.Status; s == nil || !n.Ready || s.Facts.AgentVersion != u.version || s.AgentUpgrade == nil || s.AgentUpgrade.Reason != api.UpgradeUpToDate {
		return fmt.Errorf("it has reported %+v", s)
	}
	there, err := u.node.Exec(ctx, "sha256sum", agentBinary)
	if err != nil || !bytes.HasPrefix(there, []byte(u.sum)) {
		return errors.Join(err, fmt.Errorf("the agent's SHA-256 is %s; expected %s", there, u.sum))
	}
	left, err := u.node.Exec(ctx, "sh", "-c", `ls -d "$@" 2>/dev/null || true`, "sh", "/usr/local/bin/.nodehitch-agent.new",
		"/var/lib/nodehitch/agent/upgrade.json", "/var/lib/nodehitch/agent/upgrade-identity.pem", "/var/lib/nodehitch/agent/upgrade-machine.json")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the upgrade has left %s", left)
	}
	return err
}
