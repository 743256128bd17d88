package powercut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const (
	// A growth by so much takes an emulated machine some seconds.
	growthBytes = 64 << 30
	growthCuts  = 10
)

func TestPowerCutsWhileAVolumeGrows(t *testing.T) {
	c := results.Begin(t, "powercut", "growing", "the power fails at random moments while the filesystem of an extended volume grows: clean, as large as the volume, no acknowledged byte lost")
	results.LongOnly(t)
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	cuts := int(number(t, envCuts, growthCuts))
	t.Logf("%s=%d", envSeed, seed)
	s := sitetest.Open(t, "../../bin", lab.KindVM)
	l, err := newLife(t.Context(), t, s, "grow-"+uuid.NewString()[:8], rand.New(rand.NewPCG(seed, 2)))
	if err != nil {
		t.Fatal(err)
	}
	g := &growing{life: l}
	err = g.through(t.Context(), cuts)
	if err != nil {
		l.show()
	}
	if err := errors.Join(err, l.end()); err != nil {
		t.Error(err)
	}
	c.Lost(g.lost)
	if g.inside < cuts/2 {
		t.Errorf("%d of %d cuts hit resize2fs at work", g.inside, cuts)
	}
	v := l.newest()
	if v.readBack < enoughRecords {
		t.Errorf("%d acknowledged records were looked for after the cuts, at least %d have to be", v.readBack, enoughRecords)
	}
	c.Figure("seed", "%d", seed)
	c.Figure("cuts", "%d, %d of them while resize2fs worked", cuts, g.inside)
	c.Figure("volume", "%d GiB, at last %d GiB", volumeBytes>>30, v.size>>30)
	c.Figure("an undisturbed growth", "%.1f s", g.takes.Seconds())
	c.Figure("records", "%d acknowledged and read back after the last cut", v.readBack)
	c.Figure("write cache", "%.1f MiB lost of %.1f", mib(l.took.lost), mib(l.took.cached))
}

// growing is a life whose volume grows.
type growing struct {
	*life
	// takes is how long an undisturbed growth takes.
	takes time.Duration
	lost  int64
	// inside is how many cuts came while resize2fs worked.
	inside int
}

// announced is resize2fs, and says on the console when it begins and ends.
const announced = `#!/bin/sh
echo "growth begins" >/dev/ttyS0
/usr/sbin/resize2fs "$@"
code=$?
echo "growth ends" >/dev/ttyS0
exit $code
`

// through extends the volume for each cut, in turn while the machine runs and while it is
// off, and once more before the first to learn how long that takes.
func (g *growing) through(ctx context.Context, cuts int) error {
	injected, err := g.inject(ctx)
	if err == nil {
		err = <-injected
	}
	if err == nil {
		err = g.node.Push(ctx, "/usr/local/sbin/resize2fs", 0o755, []byte(announced))
	}
	if err == nil {
		_, err = g.node.Exec(ctx, "sync")
	}
	if err != nil {
		return err
	}
	if err := g.undisturbed(ctx); err != nil {
		return fmt.Errorf("without a cut: %w", err)
	}
	for i := range cuts {
		extend := g.extendRunning
		if i%2 == 1 {
			extend = g.extendOff
		}
		if err := g.cutOff(ctx, extend); err != nil {
			return fmt.Errorf("cut %d: %w", i, err)
		}
	}
	return g.atLast(ctx)
}

// undisturbed is a growth to its end.
func (g *growing) undisturbed(ctx context.Context) error {
	if err := g.settled(ctx); err != nil {
		return err
	}
	before, err := g.said()
	if err == nil {
		err = g.extendRunning(ctx)
	}
	if err == nil {
		err = g.says(ctx, "growth begins", before.begun+1)
	}
	began := time.Now()
	if err == nil {
		err = g.says(ctx, "growth ends", before.ended+1)
	}
	g.takes = time.Since(began)
	if err == nil {
		err = g.settled(ctx)
	}
	return err
}

// cutOff cuts the power in the middle of a growth, and expects all to be well after it.
func (g *growing) cutOff(ctx context.Context, extend func(context.Context) error) error {
	before, err := g.said()
	if err != nil {
		return err
	}
	if err := extend(ctx); err != nil {
		return err
	}
	if err := g.says(ctx, "growth begins", before.begun+1); err != nil {
		return err
	}
	pause(ctx, time.Duration(g.chance.Int64N(int64(g.takes))))
	if err := g.cut(ctx); err != nil {
		return err
	}
	after, err := g.said()
	if err != nil {
		return err
	}
	g.t.Logf("cut, to %d GiB: the growth had ended: %v", g.newest().size>>30, after.ended > before.ended)
	if after.ended == before.ended {
		g.inside++
	}
	if err := g.newest().mends(ctx); err != nil {
		return err
	}
	if err := g.again(ctx); err != nil {
		return err
	}
	return g.settled(ctx)
}

// extendRunning extends the volume under the running machine, while records are written.
func (g *growing) extendRunning(ctx context.Context) error {
	if g.boot.writing == nil {
		if err := g.write(ctx); err != nil {
			return err
		}
	}
	return g.extend(ctx)
}

// extendOff extends the volume while the machine is off, and boots it.
func (g *growing) extendOff(ctx context.Context) error {
	if err := g.node.Stop(ctx); err != nil {
		return err
	}
	if err := os.Truncate(g.newest().disk.WriteLog, 0); err != nil {
		return err
	}
	if err := g.extend(ctx); err != nil {
		return err
	}
	return g.again(ctx)
}

func (g *growing) extend(ctx context.Context) error {
	v := g.newest()
	v.size += growthBytes
	if err := g.node.Extend(ctx, v.disk.VolumeID, v.size); err != nil {
		return err
	}
	_, err := g.announce(ctx)
	return err
}

// settled waits for the machine to be as it should be, with all of the room.
func (g *growing) settled(ctx context.Context) error {
	if err := g.settle(ctx, &g.lost); err != nil {
		return err
	}
	v := g.newest()
	super, err := v.superblock()
	if err == nil && super.size != v.size {
		err = fmt.Errorf("%s: the filesystem has %d bytes, expected %d", v.name, super.size, v.size)
	}
	return err
}

// atLast shuts the machine down and checks the filesystem.
func (g *growing) atLast(ctx context.Context) error {
	if err := g.node.Stop(ctx); err != nil {
		return err
	}
	return command(ctx, "e2fsck", "-n", "-f", g.newest().disk.Path)
}

// mends checks a copy of what a cut has left: the journal of the filesystem makes it whole.
func (v *volume) mends(ctx context.Context) error {
	copied := v.disk
	copied.Path += ".mended"
	defer func() { _ = os.Remove(copied.Path) }() // a copy
	if err := v.disk.Snapshot(ctx, copied.Path); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "e2fsck", "-p", "-f", copied.Path).CombinedOutput()
	// 1: the journal was replayed. More needs a person.
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s after the cut: e2fsck: %w: %s", v.name, err, out)
	}
	return nil
}

// said is how often the console has said that a growth begins, and ends.
type said struct{ begun, ended int }

func (g *growing) said() (said, error) {
	console, err := g.node.Console()
	return said{bytes.Count(console, []byte("growth begins")), bytes.Count(console, []byte("growth ends"))}, err
}

// says waits until the console has said it so often.
func (g *growing) says(ctx context.Context, text string, times int) error {
	ctx, cancel := patience(ctx, g.site.Lab, g.node)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		console, err := g.node.Console()
		if err != nil || bytes.Count(console, []byte(text)) >= times {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the console has not said %q: %w", text, ctx.Err())
		}
	}
}
