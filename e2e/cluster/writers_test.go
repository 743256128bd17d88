package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/cluster/nfswriter/report"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const (
	writerPath = "/usr/local/bin/nfswriter"
	// mountedAt is where the worker has the volume.
	mountedAt = "/mnt/kept"
	// reportsPort of the lab's own address receives the reports: they are outside of the
	// machine as soon as they are made.
	reportsPort = 7010
)

// writers are nfswriter on a worker, and its reports.
type writers struct {
	*cluster
	directory string // on the storage server

	mu      sync.Mutex
	reports []received
}

type received struct {
	report.Report
	at time.Time
}

// writes mounts a volume on the worker as kubelet does, with NFSv4.1, and writes to it from now on.
func (c *cluster) writes(volume string) *writers {
	c.T.Helper()
	w := &writers{cluster: c, directory: c.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.nfs.path}")}
	address := lab.Gateway.String() + ":" + strconv.Itoa(reportsPort)
	listener, err := c.Lab.Listen(c.T.Context(), "tcp", address)
	if err != nil {
		c.T.Fatal(err)
	}
	c.whole.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			w.receive(lines.Bytes())
		}
	}()
	program := filepath.Join(c.T.TempDir(), "nfswriter")
	build.Compile(c.T, program, "./nfswriter", "0.0.0")
	content, err := os.ReadFile(program)
	if err != nil {
		c.T.Fatal(err)
	}
	worker := c.workers()[0]
	if err := worker.Push(c.T.Context(), writerPath, 0o755, content); err != nil {
		c.T.Fatal(err)
	}
	worker.Run("mkdir", "-p", mountedAt)
	worker.Run("mount", "-t", "nfs", "-o", "vers=4.1,hard", c.storage().Address().String()+":"+w.directory, mountedAt)
	worker.Run("systemd-run", "--unit=nfswriter", writerPath, mountedAt, address)
	w.write("the volume is new", time.Time{})
	return w
}

func (w *writers) receive(line []byte) {
	now := time.Now()
	var r report.Report
	if err := json.Unmarshal(line, &r); err != nil {
		r = report.Report{Error: err.Error(), Note: string(line)}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, received{r, now})
}

func (w *writers) all() []received {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reports)
}

// first is when the first operation of one of these kinds succeeded since a time; zero if none has.
func (w *writers) first(since time.Time, kinds ...report.Kind) time.Time {
	for _, r := range w.all() {
		if r.Error == "" && r.at.After(since) && slices.Contains(kinds, r.Kind) {
			return r.at
		}
	}
	return time.Time{}
}

// write waits until each writer has written several times since a time.
func (w *writers) write(when string, since time.Time) {
	w.T.Helper()
	w.Until(when+": all write", func() error {
		w.unfailed(when)
		count := map[report.Kind]int{}
		for _, r := range w.all() {
			if r.at.After(since) && r.Error == "" {
				count[r.Kind]++
			}
		}
		for _, kind := range report.Kinds {
			if count[kind] < 3 {
				return fmt.Errorf("%v; the last reports are %+v", count, w.last())
			}
		}
		return nil
	})
}

// wait waits until no writer writes any more, and returns a time after the last report.
func (w *writers) wait() time.Time {
	w.T.Helper()
	w.Until("all wait", func() error {
		if last := w.last(); time.Since(last.at) < 2*time.Second {
			return fmt.Errorf("the last report is %+v", last)
		}
		return nil
	})
	return time.Now()
}

func (w *writers) last() received {
	all := w.all()
	if len(all) == 0 {
		return received{}
	}
	return all[len(all)-1]
}

// unfailed ends the test if an operation has failed, with the first ones.
func (w *writers) unfailed(when string) {
	w.T.Helper()
	var failures []string
	for _, r := range w.all() {
		if r.Error != "" && len(failures) < 20 {
			failures = append(failures, fmt.Sprintf("%s: %s %d: %s: %s", r.at.UTC().Format("15:04:05.000"), r.Kind, r.N, r.Error, r.Note))
		}
	}
	if failures != nil {
		w.T.Fatalf("%s: operations have failed:\n%s", when, strings.Join(failures, "\n"))
	}
}

// sound asserts that no operation failed, that the server has every append which was
// acknowledged, and that the lock is held.
func (w *writers) sound(r *results.Case) {
	w.T.Helper()
	w.unfailed("in the end")
	w.lost(r, w.storage(), w.directory)
	w.locked()
}

// lost counts what a machine lacks, in a directory, of the appends that were acknowledged.
func (w *writers) lost(r *results.Case, m *sitetest.Machine, directory string) {
	w.T.Helper()
	acknowledged := int64(-1)
	for _, got := range w.all() {
		if got.Kind == report.Append {
			acknowledged = max(acknowledged, got.N)
		}
	}
	content, err := m.Pull(w.T.Context(), filepath.Join(directory, report.AppendFile))
	if err != nil {
		w.T.Fatal(err)
	}
	missing := int64(0)
	for n := range acknowledged + 1 {
		want := report.Record(n)
		at := int(n) * len(want)
		if len(content) < at+len(want) || string(content[at:at+len(want)]) != want {
			missing += int64(len(want))
		}
	}
	r.Lost(missing)
}

// takeLock tries to lock a file as another process; exit code 11 is EAGAIN.
const takeLock = `
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as e:
    sys.exit(e.errno)
`

// locked asserts that neither a process on the storage server nor another client can take the
// lock that the writer holds. The other client is the storage server's own kernel.
func (w *writers) locked() {
	w.T.Helper()
	m := w.storage()
	other := "/mnt/other"
	m.Run("mkdir", "-p", other)
	m.Run("mount", "-t", "nfs", "-o", "vers=4.1,hard", address(m.Server).String()+":"+w.directory, other)
	for _, directory := range []string{w.directory, other} {
		_, err := m.Try("python3", "-c", takeLock, filepath.Join(directory, report.LockFile))
		var refused *lab.ExecError
		if !errors.As(err, &refused) || refused.ExitCode != 11 {
			w.T.Errorf("the lock of %s is taken by another process, or cannot be asked for: %v", directory, err)
		}
	}
	m.Run("umount", other)
}

// figures adds what the case has measured of all writers.
func (w *writers) figures(r *results.Case) {
	count, renamedBefore := map[report.Kind]int{}, 0
	for _, got := range w.all() {
		count[got.Kind]++
		if got.Note == report.RenamedBefore {
			renamedBefore++
		}
	}
	r.Figure("operations", "%d appends, %d opens, %d writes under the lock, %d of the deleted file, %d renames (%d were done twice)",
		count[report.Append], count[report.Open], count[report.Lock], count[report.Deleted], count[report.Rename], renamedBefore)
}

// explain shows what the kernels of client and server say, if the test has failed.
func (w *writers) explain() {
	for _, m := range slices.Concat(w.workers(), w.Of(storagePoint)) {
		sitetest.Explain(w.T, m, []string{"sh", "-c", "dmesg | tail -n 40; grep nfs /proc/mounts"},
			[]string{"sh", "-c", "cat /proc/fs/nfsd/clients/*/info; exportfs -s; cat /etc/nfs.conf.d/*; systemctl status --no-pager nfs-server nfsdcld nfs-mountd; ls -laR /volume/.nodehitch"})
	}
}
