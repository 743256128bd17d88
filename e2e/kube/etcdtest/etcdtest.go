// Package etcdtest starts a real etcd for a test, and harms it: members that are killed or
// frozen, connections that are cut. It skips the test with the reason if etcd is not built.
package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	place   Place
	argv    []string
	wrap    []string
	client  http.Client
	running *process.Process
}

// Place is where a member runs. The zero value is this machine, with free ports of 127.0.0.1.
type Place struct {
	// Host is the address of a network namespace of the member's own; empty for 127.0.0.1.
	Host string
	// Wrap is put before its argv, such as [nsenter, --net=…], and Dial connects to it from
	// where the test is.
	Wrap []string
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is what a client needs if the flags give the member a certificate; nil for http.
	TLS *tls.Config
}

func (p Place) address(t testing.TB, port string) string {
	if p.Host == "" {
		return loopback.FreeAddress(t)
	}
	return net.JoinHostPort(p.Host, port)
}

func (p Place) clientURL(t testing.TB) string {
	if p.TLS != nil {
		return "https://" + p.address(t, "2379")
	}
	return "http://" + p.address(t, "2379")
}

// Open starts an etcd with so many members and waits until all are ready. Flags are further
// ones of etcd, such as --max-txn-ops=256.
func Open(t testing.TB, members int, flags ...string) *Cluster {
	t.Helper()
	// Killing a process loses nothing; a power cut is not tested here.
	return OpenAt(t, t.TempDir(), make([]Place, members), append(flags, "--unsafe-no-fsync")...)
}

// OpenAt is Open with a member in each place, which keep their data in dir and flush it.
func OpenAt(t testing.TB, dir string, places []Place, flags ...string) *Cluster {
	t.Helper()
	binaries := find(t)
	c := &Cluster{}
	var peers, initial []string
	for i, place := range places {
		peers = append(peers, "http://"+place.address(t, "2380"))
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i, place := range places {
		m := &Member{t: t, place: place, URL: place.clientURL(t), DataDir: filepath.Join(dir, fmt.Sprintf("m%d", i))}
		m.client.Transport = &http.Transport{DialContext: place.Dial, TLSClientConfig: place.TLS}
		m.argv = append([]string{filepath.Join(binaries.Dir, "etcd"), fmt.Sprintf("--name=m%d", i), "--data-dir=" + m.DataDir,
			"--log-level=warn", "--listen-client-urls=" + m.URL, "--advertise-client-urls=" + m.URL,
			"--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i], "--initial-cluster=" + strings.Join(initial, ",")}, flags...)
		c.Members = append(c.Members, m)
		m.launch()
		t.Cleanup(m.Kill)
	}
	for _, m := range c.Members {
		m.WaitReady()
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
	argv := slices.Concat(m.place.Wrap, m.wrap, m.argv)
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // the test ends it
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

// WaitReady waits until it serves.
func (m *Member) WaitReady() {
	m.t.Helper()
	loopback.Until(m.t, "etcd is ready", func() bool {
		select {
		case <-m.running.Ended():
			m.t.Fatalf("etcd ended before it was ready: %v", m.running.How())
		default:
		}
		answer, err := m.client.Get(m.URL + "/readyz") //nolint:noctx // Until ends it
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
	m.WaitReady()
}

// StartUnder is Start under another program, such as strace, until the next Kill. It does not
// wait.
func (m *Member) StartUnder(argv ...string) {
	m.t.Helper()
	m.wrap = argv
	m.launch()
	m.wrap = nil
}

// PID of the running process.
func (m *Member) PID() int { return m.running.Process.Pid }

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
