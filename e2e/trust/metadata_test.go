package trust

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// The addresses at the ends of a wire; the controller's is at the host's end.
const (
	hostEnd    = "10.78.0.1"
	machineEnd = "10.78.0.2"
)

// wire is a network of a machine and its host, each in a network namespace of its own.
type wire struct {
	t             testing.TB
	host, machine string
}

var wires atomic.Int32 // made so far

func newWire(t testing.TB) *wire {
	t.Helper()
	loopback.RequireRoot(t)
	name := fmt.Sprintf("nhtrust-%d-%d", os.Getpid(), wires.Add(1))
	w := &wire{t: t, host: name + "-h", machine: name + "-m"}
	for _, ns := range []string{w.host, w.machine} {
		w.ip("netns", "add", ns)
		t.Cleanup(func() { w.ip("netns", "del", ns) })
		w.ip("-n", ns, "link", "set", "lo", "up")
	}
	w.ip("-n", w.machine, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", w.host)
	for ns, address := range map[string]string{w.host: hostEnd, w.machine: machineEnd} {
		w.ip("-n", ns, "addr", "add", address+"/24", "dev", "wire")
		w.ip("-n", ns, "link", "set", "wire", "up")
	}
	return w
}

func (w *wire) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil { //nolint:noctx // also used when the test's context is over
		w.t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// in is how to run a program in a namespace.
func in(namespace string) []string {
	return []string{"nsenter", "--net=/run/netns/" + namespace, "--"}
}

// inside calls f on a thread in a namespace; what f opens belongs there. The thread
// ends with it.
func inside(t testing.TB, namespace string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		file, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			_ = file.Close() // it was only read
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// metadata is a machine's metadata service, as Neutron and Nova have it: at one of the
// two addresses on the machine's network. It keeps its first answer for as long as Nova's
// cache does.
type metadata struct {
	cloud  *openstacktest.Cloud
	server string
	keeps  time.Duration

	mu    sync.Mutex
	shown []byte
	at    time.Time
}

// serveIPv4 has it answer at 169.254.169.254.
func (m *metadata) serveIPv4(w *wire) {
	w.ip("-n", w.host, "addr", "add", "169.254.169.254/32", "dev", "wire")
	w.ip("-n", w.machine, "route", "add", "169.254.169.254/32", "dev", "wire")
	m.serve(w, "169.254.169.254:80")
}

// serveIPv6 has it answer on the link alone.
func (m *metadata) serveIPv6(w *wire) {
	w.ip("-n", w.host, "addr", "add", "fe80::a9fe:a9fe/64", "dev", "wire", "nodad")
	m.serve(w, "[fe80::a9fe:a9fe%wire]:80")
}

func (m *metadata) serve(w *wire, address string) {
	w.t.Helper()
	var listener net.Listener
	inside(w.t, w.host, func() (err error) {
		listener, err = net.Listen("tcp", address) //nolint:noctx // it ends with the test
		return err
	})
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	w.t.Cleanup(func() { _ = server.Close() }) // nothing is left to lose
	m.answer()                                 // cloud-init has read it
}

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/openstack/latest/meta_data.json" {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(m.answer())
}

// answer is what is shown now.
func (m *metadata) answer() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown == nil || time.Since(m.at) > m.keeps {
		object := map[string]any{"uuid": m.server, "hostname": "worker", "launch_index": 0}
		if items := m.cloud.Metadata(m.server); len(items) > 0 {
			object["meta"] = items
		}
		m.shown, _ = json.Marshal(object) // strings and numbers
		m.at = time.Now()
	}
	return m.shown
}
