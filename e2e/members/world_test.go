package members

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const suite = "members"

// The request and the folder of the VNF package that it speaks of.
const (
	body       = "testdata/request.json"
	packageDir = "testdata/package"
)

// What makes a server a master or a worker, as the request names it.
const (
	masterPoint  = "masterNode_CP1"
	workerPoint  = "workerNode_CP2"
	masterAspect = "master_instance"
	workerAspect = "worker_instance"
)

// world is a controller, a Kubernetes API and a VNF in a lab.
type world struct {
	t *testing.T // the test that goes on now
	*site.Site
	kube     *kube.Cluster
	hands    *hands
	id       string
	topology api.Topology
	kills    kills

	mu       sync.Mutex
	machines []*machine // that are up, in the order of their boot
	joining  sync.WaitGroup
	etcdTurn sync.Mutex
	made     int // servers, for their names
	last     netip.Addr
}

// machine is a server that has been booted.
type machine struct {
	lab.Node
	server api.Server
	killer *site.Killer // nil while nothing kills its agent
}

func newWorld(t *testing.T, k kills) *world {
	t.Helper()
	kubetest.Require(t)
	w := &world{t: t, Site: sitetest.Open(t, bin(), lab.KindNspawn), id: uuid.NewString(), kills: k, last: lab.Gateway}
	w.kube = kubetest.Open(t, kube.Options{Lab: w.Lab, Members: true})
	w.hands = newHands(t, w.kube)
	w.topology = api.Topology{StackID: uuid.NewString(), StackStatus: "CREATE_COMPLETE",
		ConnectionPoints: []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{lab.Gateway.String()}}}}
	t.Cleanup(w.joining.Wait)
	t.Cleanup(w.explain)
	return w
}

// bin is the folder of the built binaries, which NODEHITCH_BIN may name.
func bin() string {
	if named := os.Getenv("NODEHITCH_BIN"); named != "" {
		return named
	}
	return "../../bin"
}

// draw adds a server to the stack, with an unused address.
func (w *world) draw(point, aspect string) api.Server {
	w.made++
	w.last = w.last.Next()
	s := api.Server{
		ID: uuid.NewString(), Name: fmt.Sprintf("%s-%d", strings.TrimSuffix(aspect, "_instance"), w.made),
		VnfcInstanceID: uuid.NewString(), AspectID: aspect,
		ConnectionPoints: []api.ConnectionPoint{{Name: point, Addresses: []string{w.last.String()}}},
	}
	w.topology.Servers = append(slices.Clone(w.topology.Servers), s)
	return s
}

// boot boots the machines of servers side by side with the instance's user_data; each joins
// the cluster as soon as it has what it needs.
func (w *world) boot(servers ...api.Server) []*machine {
	w.t.Helper()
	userData := []byte(w.must("render", "user-data", w.id))
	machines, errs := make([]*machine, len(servers)), make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() {
			node, err := w.Lab.Nspawn(w.t.Context(), lab.Spec{Name: s.Name, ServerID: s.ID, UserData: userData,
				Address: netip.MustParseAddr(s.ConnectionPoints[0].Addresses[0])})
			machines[i], errs[i] = &machine{Node: node, server: s}, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range machines {
		w.kills.watch(w.t, m)
		w.joining.Go(func() {
			if err := w.join(w.t.Context(), m); err != nil && !w.gone(m) {
				w.t.Errorf("%s does not join: %v", m.Name(), err)
			}
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines = append(w.machines, machines...)
	return machines
}

// destroy takes a machine and its server away, as Nova and Heat do.
func (w *world) destroy(m *machine) {
	w.t.Helper()
	w.mu.Lock()
	w.machines = slices.DeleteFunc(w.machines, func(o *machine) bool { return o == m })
	w.mu.Unlock()
	w.hands.gone(m.Name())
	w.topology.Servers = slices.DeleteFunc(slices.Clone(w.topology.Servers), func(s api.Server) bool { return s.ID == m.server.ID })
	if err := m.Destroy(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) gone(m *machine) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.Contains(w.machines, m)
}

// of are the machines of a role that are up.
func (w *world) of(point string) []*machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*machine
	for _, m := range w.machines {
		if m.server.ConnectionPoints[0].Name == point {
			list = append(list, m)
		}
	}
	return list
}

func (w *world) masters() []*machine { return w.of(masterPoint) }
func (w *world) workers() []*machine { return w.of(workerPoint) }

// said is what hitchctl answered.
type said struct {
	args           []string
	stdout, stderr string
	code           int
}

func (s said) String() string {
	return fmt.Sprintf("hitchctl %q: exit code %d\n%s%s", s.args, s.code, s.stdout, s.stderr)
}

// hitchctl runs hitchctl to its end and passes each line on as it comes.
func (w *world) hitchctl(onLine func(string), args ...string) said {
	s := said{args: args, code: -1}
	var stderr bytes.Buffer
	cmd := w.Command(w.t.Context(), args...)
	cmd.Stderr = &stderr
	lines, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.stderr = err.Error()
		return s
	}
	for in := bufio.NewScanner(lines); in.Scan(); {
		s.stdout += in.Text() + "\n"
		onLine(in.Text())
	}
	_ = cmd.Wait() // what is wrong is in the exit code
	s.code, s.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	return s
}

// must runs hitchctl, which has to succeed, and returns what it printed.
func (w *world) must(args ...string) string {
	w.t.Helper()
	s := w.hitchctl(func(string) {}, args...)
	if s.code != 0 {
		w.t.Fatal(s)
	}
	return s.stdout
}

// file writes an object into a file that hitchctl is to read.
func (w *world) file(name string, v any) string {
	w.t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	path := filepath.Join(w.t.TempDir(), name)
	if err := errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// begin runs an operation with the present stack. The channel gets its outcome.
func (w *world) begin(operation api.OperationType, flags ...string) <-chan said {
	w.t.Helper()
	args := append([]string{"operate", w.id, string(operation), "--wait", "--topology", w.file("topology.json", w.topology)}, flags...)
	ended := make(chan said, 1)
	go func() { ended <- w.hitchctl(w.kills.during(w), args...) }()
	return ended
}

// operate runs an operation that has to complete.
func (w *world) operate(operation api.OperationType, flags ...string) {
	w.t.Helper()
	if s := <-w.begin(operation, flags...); s.code != 0 {
		w.t.Fatal(s)
	}
}

// The flags of operations. Without start an operation is an END.
const start = "--phase=" + string(api.PhaseStart)

func vnfc(m *machine) string { return "--vnfc-instance-id=" + m.server.VnfcInstanceID }

// node is the machine as the controller sees it.
func (w *world) node(ctx context.Context, m *machine) (n api.Node, err error) {
	err = w.JSON(ctx, &n, "get", "node", m.ServerID())
	return n, err
}

// until calls wrong until it returns no error, and fails the test in the end.
func (w *world) until(what string, wrong func() error) {
	w.t.Helper()
	sitetest.Until(w.t, what, wrong)
}

// explain shows what the machines have to say when the test has failed.
func (w *world) explain() {
	if !w.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(w.t.Context())
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		for _, look := range [][]string{{"nodehitch-agent", "status"}, {"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "40", "-o", "cat"}} {
			out, err := m.Exec(ctx, look...)
			w.t.Logf("%s: %v: %v\n%s", m.Name(), look, err, out)
		}
	}
}
