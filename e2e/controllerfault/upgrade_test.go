package controllerfault

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// upgrade is a controller that is replaced by a later one, whose store has another schema.
type upgrade struct {
	*rig
	// later is that controller.
	later string
	// before is the store of the older controller, lines what it holds.
	before []byte
	lines  []string
}

// newUpgrade is the older controller, stopped, with a store to upgrade.
func newUpgrade(t *testing.T, c *tally, o loopback.Options) *upgrade {
	t.Helper()
	return &upgrade{later: withFailpoints(t), rig: newRig(t, c, o)}
}

// works does the workload, uploads files of 8 MiB, and stops the controller.
func (u *upgrade) works(files ...string) {
	u.t.Helper()
	workload(u.rig)
	for _, path := range files {
		must(u.t, upload(u.rig, path, 8<<20))
	}
	u.lines = u.final()
	u.before = content(u.t, u.store())
}

// run begins the later controller, with this in its environment.
func (u *upgrade) run(env ...string) error {
	u.t.Helper()
	u.stage = "the start of the later controller"
	u.c.SetBinary(u.later)
	u.c.SetEnv(append(env, newerEnv+"=1")...)
	return u.c.TryStart(u.t.Context())
}

// goesBack begins the older controller.
func (u *upgrade) goesBack() error {
	u.t.Helper()
	u.stage = "the start of the older controller"
	u.c.SetBinary("")
	u.c.SetEnv()
	return u.c.TryStart(u.t.Context())
}

// backups are the backups of upgrades.
func (u *upgrade) backups() []string {
	u.t.Helper()
	found, err := filepath.Glob(filepath.Join(u.data, "upgrade-*.tar"))
	must(u.t, err)
	return found
}

// whole checks that a backup is complete and holds what the older controller left.
func (u *upgrade) whole(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	dir, err := os.MkdirTemp(scratch, "backup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the scratch folder
	path := filepath.Join(dir, "store.db")
	manifest, seal, err := archive.Read(in, archive.Taker{
		Manifest: func(archive.Manifest) error { return nil },
		Store:    func(_ int64, c io.Reader) error { return store.Import(path, c) },
		Blob:     func(_ string, _ int64, c io.Reader) error { _, err := io.Copy(io.Discard, c); return err },
	})
	if err != nil {
		return err
	}
	if manifest.Schema != store.Schema() {
		return fmt.Errorf("its manifest says that its schema is %d", manifest.Schema)
	}
	s, err := store.Open(store.Options{Path: path, Key: store.KeySource{File: u.key()}})
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it was only read
	if !hmac.Equal(seal.MAC, s.MAC("backup", seal.Sums)) {
		return errors.New("it was not signed with the key")
	}
	lines, err := linesOf(s)
	if diff := cmp.Diff(u.lines, lines); diff != "" {
		err = errors.Join(err, fmt.Errorf("it holds (-of the older controller +backup):\n%s", diff))
	}
	return err
}

// stands says what lies in the data directory, after a start of the later controller that
// may have ended anywhere: the older controller reads the store and finds everything, or
// there is a complete backup. No backup with its final name is incomplete.
func (u *upgrade) stands() (how string) {
	u.t.Helper()
	for _, file := range u.backups() {
		if err := u.record.check(kept(func() int { return len(u.before) }, func() error { return u.whole(file) })); err != nil {
			u.t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
	how = fmt.Sprintf("backups: %d", len(u.backups()))
	if _, err := os.Stat(filepath.Join(u.data, "upgrade.partial")); err == nil {
		how += " and a part of one"
	}
	s, err := store.Open(store.Options{Path: u.store(), Key: store.KeySource{File: u.key()}})
	var newer *store.SchemaError
	switch {
	case errors.As(err, &newer):
		if len(u.backups()) == 0 {
			u.t.Error("the store has the newer schema, and there is no backup")
		}
		return how + ", newer schema"
	case err != nil:
		u.t.Errorf("the older controller cannot read the store: %v", err)
		return how + ", no store"
	}
	defer s.Close() //nolint:errcheck // it was only read
	if err := u.record.check(kept(func() int { return len(u.before) }, func() error {
		lines, err := linesOf(s)
		if diff := cmp.Diff(u.lines, lines); diff != "" {
			err = errors.Join(err, errors.New(diff))
		}
		return err
	})); err != nil {
		u.t.Errorf("the older controller finds (-before +now): %v", err)
	}
	return how + ", older schema"
}

// reset puts the older controller's store back.
func (u *upgrade) reset() {
	u.t.Helper()
	for _, file := range append(u.backups(), filepath.Join(u.data, "upgrade.partial")) {
		_ = os.Remove(file) // not all are there
	}
	must(u.t, os.WriteFile(u.store(), u.before, 0o600))
}

var advised = regexp.MustCompile("`nodehitch-controller (restore --replace ([^`]+))`")

// A later controller takes over a store of an older schema, and the older one gets it back
// by the command that it names itself.
func TestUpgradeAndBack(t *testing.T) {
	c := begin(t, "upgrade-and-back", "a later controller backs up the store and changes its schema; the older one refuses the store, names the backup and the command, and has everything after that")
	u := newUpgrade(t, c, loopback.Options{})
	u.works()
	notified := listenForStates(t)
	must(t, u.run("NOTIFY_SOCKET="+notified.path))
	if extended := notified.until("READY=1"); !slices.ContainsFunc(extended, func(s string) bool { return strings.HasPrefix(s, "EXTEND_TIMEOUT_USEC=") }) {
		t.Errorf("the service manager was not asked to wait; it was told %q", extended)
	}
	backedUp := time.Now() // at the latest
	u.checkLedger()
	u.c.End(syscall.SIGTERM)
	if how := u.stands(); how != "backups: 1, newer schema" {
		t.Errorf("after the upgrade: %s", how)
	}
	if n := u.c.Logged("event=" + api.EventStoreMigrated); n != 1 {
		t.Errorf("the log tells of %d upgrades", n)
	}
	must(t, u.run())
	u.c.End(syscall.SIGTERM)
	if n := len(u.backups()); n != 1 {
		t.Errorf("the second start of the later controller has left %d backups", n)
	}

	newer := content(t, u.store())
	err := u.goesBack()
	if err == nil {
		t.Fatal("the older controller has started")
	}
	u.words(err.Error(), []string{fmt.Sprint("its schema is version ", store.Schema()+1), fmt.Sprint("reads versions up to ", store.Schema()), "nothing has been changed", u.backups()[0]})
	if !bytes.Equal(newer, content(t, u.store())) {
		t.Error("the refused store was changed")
	}
	command := advised.FindStringSubmatch(err.Error())
	if command == nil {
		t.Fatalf("it names no command: %v", err)
	}
	restore := exec.CommandContext(t.Context(), filepath.Join(loopback.Bin(t), "nodehitch-controller"), append(strings.Fields(command[1]), "--config", u.c.ConfigFile())...)
	if out, err := restore.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprint("It could not be read (its schema is version ", store.Schema()+1)) {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, u.goesBack())
	i, err := client.Read[api.Instance](u.c.API.GetInstance(t.Context(), instance, nil))
	if err != nil || !i.Unconfirmed {
		t.Errorf("the instance is %+v, %v; want it to wait for its confirmation", i, err)
	}
	if _, err := u.c.Hitchctl("confirm", "instance", "--all", "--yes"); err != nil {
		t.Error(err)
	}
	if err := c.check(u.ledger["the new file is there"]); err != nil {
		t.Error(err)
	}
	u.c.End(syscall.SIGTERM)
	loopback.Until(t, "the second after the first upgrade", func() bool { return time.Now().Unix() > backedUp.Unix() })
	must(t, u.run())
	if n := len(u.backups()); n != 2 {
		t.Errorf("after another upgrade there are %d backups", n)
	}

	u.c.End(syscall.SIGTERM)
	restore = exec.CommandContext(t.Context(), u.later, "restore", "--config", u.c.ConfigFile(), "--replace", u.backups()[0])
	restore.Env = append(os.Environ(), newerEnv+"=1")
	if out, err := restore.CombinedOutput(); err != nil || !strings.Contains(string(out), "Carried over from it") {
		t.Fatalf("the later controller restores an older backup: %v: %s", err, out)
	}
	must(t, u.run())
	if err := c.check(u.ledger["the new file is there"]); err != nil {
		t.Error(err)
	}
}

// states are what a program tells its service manager.
type states struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func listenForStates(t *testing.T) *states {
	t.Helper()
	s := &states{t: t, path: filepath.Join(t.TempDir(), "notify")}
	var err error
	s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// until returns what was told before this.
func (s *states) until(last string) (told []string) {
	s.t.Helper()
	must(s.t, s.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	message := make([]byte, 4096)
	for {
		n, err := s.conn.Read(message)
		if err != nil {
			s.t.Fatalf("after %q: %v", told, err)
		}
		if string(message[:n]) == last {
			return told
		}
		told = append(told, string(message[:n]))
	}
}

// Without room for a backup nothing is changed, and both controllers start again.
func TestUpgradeOnAFullDisk(t *testing.T) {
	c := begin(t, "upgrade-full-disk", "a later controller finds the disk full: it says what it needs and changes nothing; the older one starts; with space the upgrade works")
	d := newDisk(t, 48)
	u := newUpgrade(t, c, d.options())
	u.data = d.seen()
	u.works("Files/large") // what ext4 keeps for itself does not count then
	d.fill()
	need := int64(0)
	for range 2 { // with nothing free, then with most of what it needs
		d.leave(need * 3 / 4)
		err := u.runOn(d)
		if err == nil {
			t.Fatal("it has started")
		}
		u.words(err.Error(), []string{"the disk is too full to bring the store to a newer schema", "free space", "nothing has been changed"})
		said := regexp.MustCompile(`needs ([0-9]+) bytes free`).FindStringSubmatch(err.Error())
		if said == nil {
			t.Fatalf("it does not say how much it needs: %v", err)
		}
		need, err = strconv.ParseInt(said[1], 10, 64)
		must(t, err)
		if how := u.stands(); how != "backups: 0, older schema" {
			t.Errorf("after the refusal: %s", how)
		}
		if !bytes.Equal(u.before, content(t, u.store())) {
			t.Error("the store was changed")
		}
	}
	u.c.SetBinary("", d.inside()...)
	u.c.SetEnv()
	must(t, u.c.TryStart(t.Context()))
	u.checkLedger()
	u.c.End(syscall.SIGTERM)
	d.leave(need)
	must(t, u.runOn(d))
	u.checkLedger()
	u.c.End(syscall.SIGTERM)
	if how := u.stands(); how != "backups: 1, newer schema" {
		t.Errorf("with the %d bytes that it needs: %s", need, how)
	}
	c.Figure("needed", "%d bytes for a store of %d", need, len(u.before))
}

// leave takes so much from the ballast that this much is free, in whole blocks.
func (d *disk) leave(bytes int64) {
	d.t.Helper()
	bytes = (bytes + page - 1) / page * page
	free, err := store.Free(d.seen())
	must(d.t, err)
	must(d.t, os.Truncate(d.ballast(), weight(d.t, d.ballast())-max(0, bytes-free)))
	if free, err = store.Free(d.seen()); err != nil || free < bytes || free > bytes+(1<<20) {
		d.t.Fatalf("%d bytes are free, want %d; %v", free, bytes, err)
	}
}

// runOn begins the later controller, on a disk of its own.
func (u *upgrade) runOn(d *disk, env ...string) error {
	u.t.Helper()
	u.stage = "the start of the later controller"
	u.c.SetBinary(u.later, d.inside()...)
	u.c.SetEnv(append(env, newerEnv+"=1")...)
	return u.c.TryStart(u.t.Context())
}

// The power is cut in the middle of an upgrade: the backup is on the disk before the first
// byte of the store changes.
func TestPowerCutOfAnUpgrade(t *testing.T) {
	for point, want := range map[string]string{
		begins:     "backups: 1, older schema",
		headerNext: "backups: 1, older schema",
		committed:  "backups: 1, newer schema",
	} {
		t.Run(point, func(t *testing.T) {
			c := begin(t, "upgrade-power-"+point, "the power of the disk is cut in the commit of an upgrade ("+point+"): the backup is complete, and the store is of one schema or the other")
			d := newDisk(t, 48)
			u := newUpgrade(t, c, d.options())
			u.data = d.seen()
			u.works()
			if err := u.runOn(d, failpointAt(point, 1)); err == nil {
				t.Fatal("it was not killed")
			}
			d.cut()
			d.replug()
			if how := u.stands(); how != want {
				t.Errorf("after the cut: %s; want %s", how, want)
			}
			must(t, u.runOn(d))
			u.checkLedger()
		})
	}
}

// The system calls at which the later controller is killed: they make, fill, lock, rename
// and remove files. Some are made too often for files that an upgrade does not concern.
var upgradeCalls = []struct {
	call string
	ours bool // count only those about the store and the backup
}{
	{"openat", true}, {"flock", true}, {"write", false}, {"ftruncate", false}, {"pwrite64", false},
	{"fdatasync", false}, {"fsync", false}, {"renameat", false}, {"unlinkat", false},
}

// The later controller is killed as it is about to make a system call, at one after the
// other until it is ready. Each time the older controller could go on with the store or has
// a complete backup, and the later one, started again, has everything.
func TestUpgradeIsKilled(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v; `make deps` installs it", err)
	}
	c := begin(t, "upgrade-killed", "kill -9 at the system calls of an upgrade: the older controller goes on with the store or has a complete backup, and the later one, started again, has everything")
	u := newUpgrade(t, c, loopback.Options{})
	u.works()
	left, kills := map[string]int{}, 0
	for _, call := range upgradeCalls {
		every := 1
		if !results.Full() && call.call == "write" {
			every = 6
		}
		for n := 1; ; n += every {
			argv := []string{"env", "GOMAXPROCS=1", strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call.call,
				"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call.call, n)}
			if call.ours {
				argv = append(argv, "-P", u.store(), "-P", filepath.Join(u.data, "upgrade.partial"))
			}
			u.c.SetBinary(u.later, argv...)
			u.c.SetEnv(newerEnv + "=1")
			u.stage = fmt.Sprintf("%s %d", call.call, n)
			if u.c.TryStart(t.Context()) == nil { // it makes no so many
				u.endTraced()
				u.reset()
				break
			}
			kills++
			how := u.stands()
			left[how]++
			t.Logf("killed at %s %d: %s", call.call, n, how)
			must(t, u.run())
			u.checkLedger()
			u.c.End(syscall.SIGTERM)
			if _, err := os.Stat(filepath.Join(u.data, "upgrade.partial")); err == nil {
				t.Errorf("killed at %s %d: the part of a backup is still there", call.call, n)
			}
			if n := len(u.backups()); n == 0 || n > 2 {
				t.Errorf("there are %d backups", n)
			}
			u.reset()
		}
	}
	c.Figure("kills", "%d", kills)
	var all []string
	for how, n := range left {
		all = append(all, fmt.Sprintf("%d × %s", n, how))
	}
	slices.Sort(all)
	c.Figure("left behind", "%s", strings.Join(all, "; "))
	for _, how := range []string{"backups: 0, older schema", "backups: 0 and a part of one, older schema", "backups: 1, older schema", "backups: 1, newer schema"} {
		if left[how] == 0 {
			t.Errorf("no kill left this behind: %s", how)
		}
	}
}

// endTraced ends a controller that runs under strace, which ends with it.
func (u *upgrade) endTraced() {
	u.t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%d/children", u.c.PID(), u.c.PID())
	children, err := os.ReadFile(path)
	must(u.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		u.t.Fatalf("strace has not one child: %q", children)
	}
	must(u.t, syscall.Kill(pid, syscall.SIGTERM))
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Minute)
	defer cancel()
	select {
	case <-u.c.Exited():
	case <-ctx.Done():
		u.t.Fatal("it does not end")
	}
	u.c.End(syscall.SIGTERM)
}
