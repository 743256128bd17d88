package storage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// These tests kill a real process that formats a real disk. The process is this
// test binary, told by its environment what to do.

const childVariable = "NODEHITCH_TEST_FORMAT"

// child is what the other process has to know.
type child struct {
	ByID, State, VolumeID string
	// KillAt is the n-th of the points in the format at which it kills itself; 0 = it
	// is killed from outside.
	KillAt int
	// Mounted is where the volume is mounted whose filesystem is to grow; "" = the volume
	// is to be formatted.
	Mounted string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		var c child
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		do := c.formatter(&point{at: c.KillAt}).run
		if c.Mounted != "" {
			do = c.grower(&point{at: c.KillAt}).extend
		}
		if err := do(context.Background()); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// point counts the places at which the process may be killed.
type point struct{ at, passed int }

func (p *point) pass() {
	if p.passed++; p.passed == p.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// killing is killed before and after each write of a file.
type killing struct {
	host.Files
	*point
}

func (k killing) Write(path string, content []byte, mode fs.FileMode) error {
	k.pass()
	err := k.Files.Write(path, content, mode)
	k.pass()
	return err
}

// ledger permits, and remembers on disk: the controller does not die with the agent.
type ledger struct {
	path string
	*point
}

func (l ledger) note(line string) {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		panic(err)
	}
	f.Close()
}

func (l ledger) Wanted(_ context.Context, f Format) (Permit, error) {
	l.pass()
	if f.BlankCheck == nil {
		return Permit{}, converge.Wait(api.ReasonNoPermit, "there is no blank check")
	}
	l.note("wanted")
	l.pass()
	return Permit{ID: "permit-" + f.VolumeID}, nil
}

func (l ledger) Started(context.Context, Format) error {
	l.pass()
	l.note("started")
	l.pass()
	return nil
}

func (l ledger) Formatted(context.Context, Format) error {
	l.pass()
	l.note("formatted")
	l.pass()
	return nil
}

func (c child) formatter(p *point) *formatter {
	paths := host.MachinePaths
	paths.ByID, paths.UdevControl = c.ByID, filepath.Join(c.ByID, "no udev")
	h := host.LinuxAt(paths, nil)
	h.Files = killing{h.Files, p}
	v := &api.StorageVolume{VolumeID: c.VolumeID, MountPath: "/volume", Filesystem: api.Ext4, FilesystemUUID: api.FilesystemUUID(c.VolumeID)}
	volumes := NewSteps(Options{Host: h, Permits: ledger{filepath.Join(c.State, "ledger"), p}, NodeID: "node", StateDirectory: c.State})[0].(*volumes)
	disk, err := volumes.find(v)
	if err != nil {
		panic(err)
	}
	return &formatter{steps: volumes.steps, v: v, disk: disk}
}

// situation is a blank disk, attached.
func situation(t *testing.T, size int64) (child, *loop) {
	t.Helper()
	l := newLoop(t, size)
	// Each disk has an id of its own, by which its mkfs is found.
	id := fmt.Sprintf("%08x-1b2c-4d5e-8f60-%012x", rand.Uint32(), rand.Uint64N(1<<48))
	c := child{ByID: t.TempDir(), State: t.TempDir(), VolumeID: id}
	if err := os.Symlink(l.node, filepath.Join(c.ByID, "virtio-"+id[:20])); err != nil {
		t.Fatal(err)
	}
	return c, l
}

// start runs the other process.
func (c child) start(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// recovered lets a new agent go on, and wants the filesystem to be there and whole.
func (c child) recovered(t *testing.T, l *loop) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		f := c.formatter(&point{})
		err := f.run(t.Context())
		if err == nil {
			err = f.report(t.Context())
		}
		if err == nil {
			break
		}
		// A mkfs that outlived its agent still has the disk, or has just written the superblock.
		var waiting *converge.Waiting
		if said := err.Error(); !errors.As(err, &waiting) || !strings.Contains(said, "in use") && !strings.Contains(said, "while the agent read it") {
			t.Fatalf("going on: %v", err)
		}
		select {
		case <-deadline:
			t.Fatalf("going on: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	f := c.formatter(&point{})
	if got := inspect(t.Context(), f.Host.Disks, f.disk, f.v.FilesystemUUID, unknown); got.kind != ours {
		t.Errorf("found %q", got.what)
	}
	run(t, "e2fsck", "-n", "-f", l.node)
	if r, err := f.journal.read(c.VolumeID); err != nil || r == nil || r.Phase != reported {
		t.Errorf("journal %+v, %v", r, err)
	}
	notes := strings.Join(c.ledger(t), " ")
	if !strings.Contains(notes, "started") || !strings.HasSuffix(notes, "formatted") {
		t.Errorf("the controller was told: %s", notes)
	}
}

func (c child) ledger(t *testing.T) []string {
	f, err := os.Open(filepath.Join(c.State, "ledger"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// TestKilledAtEveryPoint kills the agent at each step between wanted and formatted.
func TestKilledAtEveryPoint(t *testing.T) {
	needs(t)
	for n := 1; n < 200; n++ {
		done := false
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			c, l := situation(t, 70*mib)
			blankHash := l.hash(t)
			c.KillAt = n
			if done = c.start(t).Wait() == nil; done {
				return
			}
			if notes := c.ledger(t); !slices.Contains(notes, "started") && l.hash(t) != blankHash {
				t.Errorf("the disk was written to before the start was acknowledged: %q", notes)
			}
			c.KillAt = 0
			c.recovered(t, l)
		})
		if done {
			if n < 9 {
				t.Errorf("only %d points", n)
			}
			return
		}
	}
}

// TestKilledAnyTime kills the agent, and every other time its mkfs too, at random
// moments.
func TestKilledAnyTime(t *testing.T) {
	needs(t)
	rounds, state := 8, map[kind]int{}
	if testing.Short() {
		rounds = 4
	}
	for i := range rounds {
		c, l := situation(t, 2<<30)
		cmd := c.start(t)
		time.AfterFunc(time.Duration(rand.Int64N(int64(250*time.Millisecond))), func() {
			mkfs := c.mkfs(cmd.Process.Pid)
			_ = cmd.Process.Kill()
			if mkfs != 0 && i%2 == 0 { // else it outlives its agent
				_ = syscall.Kill(mkfs, syscall.SIGKILL)
			}
		})
		_ = cmd.Wait()
		f := c.formatter(&point{})
		state[inspect(t.Context(), f.Host.Disks, f.disk, f.v.FilesystemUUID, unknown).kind]++
		c.recovered(t, l)
		l.detach()
	}
	t.Logf("killed, the disk was: %d blank, %d complete, %d anything else, %d still written to", state[blank], state[ours], state[foreign], state[unknown])
}

// mkfs is the process that makes this volume's filesystem, 0 for none.
func (c child) mkfs(agent int) int { return childOf(agent, "mkfs", api.FilesystemUUID(c.VolumeID)) }

// childOf is the child of a process whose command line has all these words, 0 for none.
func childOf(agent int, words ...string) int {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", agent))
	for _, path := range children {
		text, _ := os.ReadFile(path)
		for _, pid := range strings.Fields(string(text)) {
			argv, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(string(argv), word) }) {
				n, _ := strconv.Atoi(pid)
				return n
			}
		}
	}
	return 0
}

// TestPowerCutInMkfs: of what mkfs writes, any part may have reached the medium in
// any order. Some of it is copied to a blank disk, whose journal says "started".
func TestPowerCutInMkfs(t *testing.T) {
	needs(t)
	const size = 128 * mib
	complete, made := situation(t, size)
	complete.recovered(t, made)
	run(t, "blockdev", "--flushbufs", made.node)
	content, err := os.ReadFile(made.image)
	if err != nil {
		t.Fatal(err)
	}
	made.detach() // it has the same UUID as what follows
	state := map[kind]int{}
	for i := range 24 {
		l := newLoop(t, size)
		c := child{ByID: t.TempDir(), State: t.TempDir(), VolumeID: complete.VolumeID}
		if err := os.Symlink(l.node, filepath.Join(c.ByID, "virtio-"+c.VolumeID[:20])); err != nil {
			t.Fatal(err)
		}
		f := c.formatter(&point{})
		if err := f.journal.write(record{VolumeID: c.VolumeID, Phase: started, Permit: "permit-" + c.VolumeID, NodeID: "node",
			Device: f.disk.Path, SizeBytes: size, FilesystemUUID: f.v.FilesystemUUID}); err != nil {
			t.Fatal(err)
		}
		f.Permits.(ledger).note("started") // else the journal would not say so
		image, err := os.OpenFile(l.node, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < size; at += page {
			b := content[at : at+page]
			superblockToo := at > 0 || i%3 == 0
			if bytes.Count(b, []byte{0}) < page && superblockToo && rand.IntN(24) < i {
				if _, err := image.WriteAt(b, int64(at)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(image.Sync(), image.Close()); err != nil {
			t.Fatal(err)
		}
		state[inspect(t.Context(), f.Host.Disks, f.disk, f.v.FilesystemUUID, unknown).kind]++
		c.recovered(t, l)
		l.detach()
	}
	t.Logf("the cut left: %d blank, %d that look complete, %d anything else", state[blank], state[ours], state[foreign])
}

// TestFormat is the whole exchange on a real disk, and what mkfs made of it.
func TestFormat(t *testing.T) {
	needs(t, "dumpe2fs")
	c, l := situation(t, 1<<30)
	begun := time.Now()
	c.recovered(t, l)
	t.Logf("1 GiB: two proofs, mkfs and check took %s", time.Since(begun).Round(time.Millisecond))
	header := run(t, "dumpe2fs", "-h", l.node)
	for _, want := range []string{
		"Filesystem UUID:          " + api.FilesystemUUID(c.VolumeID), "Reserved block count:     0\n", "Block size:               4096\n",
		"has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super large_file huge_file dir_nlink extra_isize metadata_csum\n",
	} {
		if !strings.Contains(header, want) {
			t.Errorf("dumpe2fs does not say %q:\n%s", want, header)
		}
	}
	if got := strings.Join(c.ledger(t), " "); got != "wanted started formatted" {
		t.Errorf("the controller was told: %s", got)
	}
	keepsWhatIsFinished(t, c.formatter(&point{}), l)
}

// keepsWhatIsFinished: a journal that only says that mkfs has begun does not destroy a
// finished filesystem, used or unused.
func keepsWhatIsFinished(t *testing.T, f *formatter, l *loop) {
	t.Helper()
	r, err := f.journal.read(f.v.VolumeID)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []func(){func() {}, func() { takePhoto(t, l) }} {
		use()
		r.Phase = started
		if err := f.journal.write(*r); err != nil {
			t.Fatal(err)
		}
		before := l.hash(t)
		if err := f.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l.hash(t) != before {
			t.Error("a finished filesystem was made anew")
		}
		if now, err := f.journal.read(f.v.VolumeID); err != nil || now.Phase != formatted {
			t.Errorf("the journal says %+v, %v", now, err)
		}
	}
}

func takePhoto(t *testing.T, l *loop) {
	t.Helper()
	dir := t.TempDir()
	mountLoop(t, l, dir)
	if err := os.WriteFile(filepath.Join(dir, "photo.jpg"), []byte("photo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
}

// TestOverwrite: an operator gave up a disk with partitions.
func TestOverwrite(t *testing.T) {
	needs(t, "sgdisk")
	c, l := situation(t, 200*mib)
	run(t, "sgdisk", "-n", "1:0:0", l.node)
	f := c.formatter(&point{})
	before := l.hash(t)
	if err := f.run(t.Context()); err == nil {
		t.Error("formatted without a permit to overwrite")
	}
	if l.hash(t) != before {
		t.Error("the disk was written to")
	}
	f.Permits, f.v.ReformatRequested = overwriting{f.Permits.(ledger)}, true
	if err := f.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.recovered(t, l)
	keepsWhatIsFinished(t, f, l)
}

type overwriting struct{ ledger }

func (o overwriting) Wanted(context.Context, Format) (Permit, error) {
	return Permit{ID: "permit", Overwrite: true}, nil
}
