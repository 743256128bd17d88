package storage

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// grower grows the volume that is mounted.
func (c child) grower(p *point) *volumePlan {
	f := c.formatter(p)
	f.v.MountPath, f.v.SizeBytes = c.Mounted, f.disk.Size
	return &volumePlan{steps: f.steps, v: f.v, disk: f.disk}
}

// extend makes the disk larger or smaller, and the kernel see that.
func (l *loop) extend(t *testing.T, size int64) {
	t.Helper()
	if err := os.Truncate(l.image, size); err != nil {
		t.Fatal(err)
	}
	run(t, "losetup", "--set-capacity", l.node)
	l.size = size
}

// grows skips if this machine cannot let a mounted filesystem grow, and says why.
func grows(t *testing.T) {
	t.Helper()
	needs(t, "resize2fs")
	if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); err != nil || has == 0 {
		t.Skip("needs CAP_SYS_RESOURCE, without which the kernel refuses to grow a mounted filesystem, and which this container does not have")
	}
}

// grownRig is a volume that is formatted and mounted, and what is on it.
type grownRig struct {
	child
	l     *loop
	files map[string][]byte
}

func mountedVolume(t *testing.T, size int64) *grownRig {
	t.Helper()
	c, l := situation(t, size)
	c.recovered(t, l)
	g := &grownRig{child: c, l: l, files: map[string][]byte{}}
	g.Mounted = t.TempDir()
	mountLoop(t, l, g.Mounted)
	for i := range 20 {
		content := make([]byte, rand.IntN(256<<10))
		for j := range content {
			content[j] = byte(rand.Uint32())
		}
		path := filepath.Join(g.Mounted, strconv.Itoa(i))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		g.files[path] = content
	}
	return g
}

// whole expects every byte of the files, and no more room to grow into; then, unmounted, a
// clean filesystem.
func (g *grownRig) whole(t *testing.T) {
	t.Helper()
	for path, want := range g.files {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what it was: %d bytes, %v", path, len(got), err)
		}
	}
	sb, more, err := g.grower(&point{}).growable()
	if err != nil || more {
		t.Errorf("the filesystem has %d bytes on a disk of %d; more to grow: %v, %v", sb.Size, g.l.size, more, err)
	}
	if err := unix.Unmount(g.Mounted, 0); err != nil {
		t.Fatal(err)
	}
	run(t, "e2fsck", "-n", "-f", g.l.node)
}

// said is what the record says.
func (g *grownRig) said(t *testing.T) growth {
	t.Helper()
	record, err := g.grower(&point{}).journal.growth(g.VolumeID)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// Disks of every kind of size: whole groups, and the rest of one, too small for its tables.
func TestGrowOnARealDisk(t *testing.T) {
	grows(t)
	for _, c := range []struct{ from, to int64 }{
		{64 * mib, 80 * mib}, {70 * mib, 1 << 30}, {128 * mib, 256 * mib}, {128 * mib, 129*mib + 512}, {128 * mib, 137 * mib},
		{250 * mib, 257 * mib}, {200 * mib, 266 * mib}, {1 << 30, 3<<30 + 512*7}, {1 << 30, 40<<30 + 3*mib},
		{128*mib + 3*mib, 384*mib + 6*mib}, {100 * mib, 384*mib + 2*mib}, {1 << 30, 2<<40 + 5*mib}, // more than mkfs has reserved descriptors for
	} {
		if testing.Short() && c.to > 1<<40 {
			continue
		}
		t.Run(fmt.Sprintf("%d to %d", c.from, c.to), func(t *testing.T) {
			g := mountedVolume(t, c.from)
			g.l.extend(t, c.to)
			p := g.grower(&point{})
			from, grow, err := p.growable()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.extend(t.Context()); err != nil {
				t.Fatal(err)
			}
			to, err := p.filesystemOn(p.disk)
			if err != nil || (to.Size > from.Size) != grow {
				t.Errorf("%d bytes became %d, %v; expected it to grow: %v", from.Size, to.Size, err, grow)
			}
			if got := g.said(t); grow && (got.Phase != grown || got.FromBytes != int64(from.Size) || got.ToBytes != int64(to.Size)) {
				t.Errorf("the record says %+v", got)
			}
			t.Logf("%d bytes of the disk are left over", c.to-int64(to.Size))
			g.whole(t)
		})
	}
}

// What must not grow stays as it is.
func TestWhatMustNotGrow(t *testing.T) {
	needs(t, "resize2fs")
	larger := func(change func(*testing.T, *grownRig, *volumePlan)) func(*testing.T, *grownRig) *volumePlan {
		return func(t *testing.T, g *grownRig) *volumePlan {
			g.l.extend(t, 256*mib)
			p := g.grower(&point{})
			change(t, g, p)
			return p
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *grownRig) *volumePlan
		says   string
	}{
		"a disk that shrank": {func(t *testing.T, g *grownRig) *volumePlan {
			g.l.extend(t, 64*mib)
			return g.grower(&point{})
		}, "has shrunk"},
		"a disk that is larger than its volume": {larger(func(_ *testing.T, _ *grownRig, p *volumePlan) { p.v.SizeBytes = 128 * mib }), "it is mounted as it is"},
		"another filesystem": {larger(func(_ *testing.T, _ *grownRig, p *volumePlan) {
			p.v.FilesystemUUID = "11111111-2222-4333-8444-555555555555"
		}), "holds the filesystem"},
		"an unfinished format": {larger(func(t *testing.T, g *grownRig, p *volumePlan) {
			r, err := p.journal.read(g.VolumeID)
			if err == nil {
				r.Phase = started
				err = p.journal.write(*r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}), "is not finished"},
		"a filesystem that is not mounted": {larger(func(t *testing.T, g *grownRig, _ *volumePlan) {
			if err := unix.Unmount(g.Mounted, 0); err != nil {
				t.Fatal(err)
			}
			run(t, "e2fsck", "-f", "-y", g.l.node) // else resize2fs asks for this
		}), "the filesystem there is on"},
		"a filesystem that is mounted elsewhere": {larger(func(t *testing.T, _ *grownRig, p *volumePlan) { p.v.MountPath = t.TempDir() }), "the filesystem there is on"},
	} {
		t.Run(name, func(t *testing.T) {
			g := mountedVolume(t, 128*mib)
			p := c.change(t, g)
			before, err := p.filesystemOn(p.disk)
			if err != nil {
				t.Fatal(err)
			}
			failure := p.extend(t.Context())
			after, err := p.filesystemOn(p.disk)
			if err != nil || after.Size != before.Size {
				t.Errorf("it had %d bytes and has %d: %v", before.Size, after.Size, err)
			}
			if failure == nil || !strings.Contains(failure.Error(), c.says) || strings.Contains(failure.Error(), "resize2fs /proc") {
				t.Errorf("%v does not say %q", failure, c.says)
			}
		})
	}
}

// TestKilledAtEveryPointOfAGrowth kills the agent before and after each write of its
// journal, and lets another one go on.
func TestKilledAtEveryPointOfAGrowth(t *testing.T) {
	grows(t)
	for n := 1; ; n++ {
		g := mountedVolume(t, 128*mib)
		g.l.extend(t, 512*mib)
		g.KillAt = n
		if g.start(t).Wait() == nil {
			if n != 7 {
				t.Errorf("%d points, expected 6", n-1)
			}
			g.whole(t)
			return
		}
		g.KillAt = 0
		if err := g.grower(&point{}).extend(t.Context()); err != nil {
			t.Fatalf("killed at point %d: %v", n, err)
		}
		if got := g.said(t); got.Phase != grown || got.FromBytes != 128*mib || got.ToBytes != 512*mib {
			t.Errorf("killed at point %d: the record says %+v", n, got)
		}
		g.whole(t)
		g.l.detach()
	}
}

// TestKilledAnyTimeInAGrowth kills the agent, and every other time its resize2fs too, at
// random moments.
func TestKilledAnyTimeInAGrowth(t *testing.T) {
	grows(t)
	rounds, between := 8, 0
	if testing.Short() {
		rounds = 4
	}
	for i := range rounds {
		g := mountedVolume(t, 256*mib)
		g.l.extend(t, 200<<30)
		cmd := g.start(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		if resize := g.resizing(cmd.Process.Pid, ended); resize != 0 {
			time.Sleep(time.Duration(rand.Int64N(int64(200 * time.Millisecond)))) // the random moment
			_ = cmd.Process.Kill()
			if i%2 == 0 { // else it outlives its agent
				_ = syscall.Kill(resize, syscall.SIGKILL)
			}
		}
		<-ended
		if sb, err := g.grower(&point{}).filesystemOn(g.grower(&point{}).disk); err == nil && sb.Size > 256*mib && sb.Size < 200<<30 {
			between++
		}
		g.goOn(t)
		g.whole(t)
		g.l.detach()
	}
	t.Logf("after %d of %d kills the filesystem had a size in between", between, rounds)
}

// resizing waits for the resize2fs of an agent; 0 if the agent ends without one.
func (g *grownRig) resizing(agent int, ended <-chan struct{}) int {
	for {
		select {
		case <-ended:
			return 0
		case <-time.After(time.Millisecond):
		}
		if pid := childOf(agent, "resize2fs"); pid != 0 {
			return pid
		}
	}
}

// goOn lets other agents go on: a resize2fs that outlived its agent may still work.
func (g *grownRig) goOn(t *testing.T) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		err := g.grower(&point{}).extend(context.WithoutCancel(t.Context()))
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("going on: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if !strings.Contains(err.Error(), "busy") {
			t.Fatalf("going on: %v", err)
		}
	}
}
