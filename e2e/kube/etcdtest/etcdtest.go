// Package etcdtest starts a real etcd for a test, and harms it: members that are killed or
// frozen, connections that are cut. It skips the test with the reason if etcd is not built.
package etcdtest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// Cluster is an etcd. Its members are killed when the test ends.
type Cluster struct {
	Members []*Member
}

// Member is one of its processes.
type Member struct {
	// URL for clients.
	URL string
	// DataDir is etcd's.
	DataDir string

	t       testing.TB
	argv    []string
	running *process.Process
}

// Open starts an etcd with so many members and waits until all are ready. Flags are further
// ones of etcd, such as --max-txn-ops=256.
func Open(t testing.TB, members int, flags ...string) *Cluster {
	t.Helper()
	binaries := find(t)
	c, dir := &Cluster{}, t.TempDir()
	var peers, initial []string
	for i := range members {
		peers = append(peers, "http://"+loopback.FreeAddress(t))
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i := range members {
		url := "http://" + loopback.FreeAddress(t)
		m := &Member{t: t, URL: url, DataDir: filepath.Join(dir, fmt.Sprintf("m%d", i))}
		m.argv = append([]string{filepath.Join(binaries.Dir, "etcd"), fmt.Sprintf("--name=m%d", i), "--data-dir=" + m.DataDir,
			"--unsafe-no-fsync", // killing a process loses nothing; a power cut is not tested here
			"--log-level=warn", "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i], "--initial-cluster=" + strings.Join(initial, ",")}, flags...)
		c.Members = append(c.Members, m)
		m.launch()
		t.Cleanup(m.Kill)
	}
	for _, m := range c.Members {
		m.waitReady()
	}
	return c
}

// find skips the test if etcd is not built, with the reason. In a run with the long cases, or
// one that requires the lab, it has been built, so there the test fails.
func find(t testing.TB) *kube.Binaries {
	t.Helper()
	binaries, err := kube.FindEtcd("")
	required := results.Full() || os.Getenv("NODEHITCH_LAB") == "required"
	switch {
	case (errors.Is(err, kube.ErrNoEtcd) || errors.Is(err, fs.ErrPermission)) && !required:
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = binaries.Close() })
	return binaries
}

// Endpoints are the URLs of all members.
func (c *Cluster) Endpoints() (urls []string) {
	for _, m := range c.Members {
		urls = append(urls, m.URL)
	}
	return urls
}

func (m *Member) launch() {
	m.t.Helper()
	cmd := exec.Command(m.argv[0], m.argv[1:]...) //nolint:noctx // the test ends it
	cmd.Stderr = &output{t: m.t}
	var err error
	if m.running, err = process.Start(cmd); err != nil {
		m.t.Fatal(err)
	}
}

// output is etcd's log, which only a test that fails or -v shows. etcd ends before the test.
type output struct{ t testing.TB }

func (o *output) Write(text []byte) (int, error) {
	o.t.Logf("etcd: %s", text)
	return len(text), nil
}

func (m *Member) waitReady() {
	m.t.Helper()
	loopback.Until(m.t, "etcd is ready", func() bool {
		select {
		case <-m.running.Ended():
			m.t.Fatalf("etcd ended before it was ready: %v", m.running.How())
		default:
		}
		answer, err := http.Get(m.URL + "/readyz") //nolint:noctx // Until ends it
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// Start starts it again after Kill and waits until it is ready.
func (m *Member) Start() {
	m.t.Helper()
	m.launch()
	m.waitReady()
}

// Kill ends it between two instructions. It need not run.
func (m *Member) Kill() {
	if m.running != nil {
		_ = m.running.Process.Kill()
		<-m.running.Ended()
		m.running = nil
	}
}

// Freeze stops it until Thaw; its connections stay.
func (m *Member) Freeze() { m.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (m *Member) Thaw() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.running.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}
