package agentfault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// The system calls at which agents are killed: they make, lock, fill, rename and remove
// its files, and begin connections.
var turns = []string{"flock", "fsync", "renameat", "unlinkat", "connect", "fchmod"}

// kill is where an agent is killed: as one of its threads is about to make the n-th
// call, or the first one that concerns a file of its state.
type kill struct {
	call string
	n    int
	file string
}

func (k kill) String() string { return strings.TrimSpace(fmt.Sprintf("%s %d %s", k.call, k.n, k.file)) }

// atFiles are the moments that matter most: the key is about to be kept, what the
// controller issued is known and not on disk, the record is not there yet.
var atFiles = []kill{
	{"renameat", 1, "key-next.pem"}, {"renameat", 1, "machine.json"}, {"renameat", 1, "identity.pem"},
	{"unlinkat", 1, "key-next.pem"}, {"renameat", 1, "last-known-good.json"},
}

// under is the program under which the agent runs to be killed there.
func (k kill) under(t *testing.T, state string) []string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v; `make deps` installs it", err)
	}
	// Calls are counted for each thread, so the fewer the better.
	argv := []string{"env", "GOMAXPROCS=1", path, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + k.call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", k.call, k.n)}
	if k.file != "" {
		argv = append(argv, "-P", filepath.Join(state, k.file))
	}
	return argv
}

// TestKilledAnywhere kills agents in their first run, each at another call, and
// starts them again.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "agent killed anywhere in its first run",
		"SIGKILL at each call that makes, fills, renames or removes a file or begins a connection, until the document is applied: started again it finishes, with one identity and without the operator")
	most := 1
	if results.Full() {
		most = 8
	}
	kills := slices.Clone(atFiles)
	for _, call := range turns {
		for n := 1; n <= most; n++ {
			kills = append(kills, kill{call: call, n: n})
		}
	}
	w := newWorkerVNF(t, len(kills), loopback.Options{})
	agents := make([]*loopback.Agent, len(kills))
	killed := 0
	const together = 12
	for first := 0; first < len(kills); first += together {
		group := kills[first:min(first+together, len(kills))]
		for i, k := range group {
			config := w.AgentConfig(w.instance)
			config.StateDirectory = filepath.Join(t.TempDir(), "state")
			agents[first+i] = loopback.StartAgent(t, loopback.AgentOptions{
				ServerID: w.servers[first+i], Config: config, Wrap: k.under(t, config.StateDirectory),
			})
		}
		for i, k := range group {
			if w.firstRun(first+i, agents[first+i]) {
				killed++
			} else if k.file != "" {
				t.Errorf("%s: it was not killed", k)
			}
		}
	}
	for i, a := range agents {
		config := w.AgentConfig(w.instance)
		config.StateDirectory = a.State()
		w.secondRun(t, i, kills[i], loopback.StartAgent(t, loopback.AgentOptions{ServerID: w.servers[i], Config: config}))
	}
	enrolled, reissued := w.enrollments()
	if enrolled != len(kills) {
		t.Errorf("%d servers of %d have enrolled", enrolled, len(kills))
	}
	if refused := w.refusals(); refused > 0 {
		t.Errorf("%d enrollments were refused: a lost answer would keep the machine out", refused)
	}
	if killed < len(turns) {
		t.Errorf("only %d of %d were killed", killed, len(kills))
	}
	r.Figure("agents", "%d", len(kills))
	r.Figure("killed before the end", "%d", killed)
	r.Figure("certificates issued again", "%d", reissued)
}

// firstRun waits until the agent was killed, and reports true, or is done, and ends it.
func (w *workerVNF) firstRun(i int, a *loopback.Agent) (killed bool) {
	w.t.Helper()
	loopback.Within(w.t, 3*time.Minute, "it is killed or done", func() bool {
		_, err := os.Stat(filepath.Join(a.State(), "last-known-good.json"))
		return a.Ended() || err == nil && w.current(i)
	})
	if a.Ended() {
		return true
	}
	pid := a.Status().PID // a child of strace, which ends with it
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !bytes.Contains(line, []byte(a.Dir)) {
		w.t.Fatalf("process %d is not the agent: %q, %v", pid, line, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		w.t.Fatal(err)
	}
	_ = a.Wait()
	return false
}

// secondRun expects the node to be as without the kill.
func (w *workerVNF) secondRun(t *testing.T, i int, k kill, a *loopback.Agent) {
	t.Helper()
	want := []string{"identity.pem", "last-known-good.json", "machine.json"}
	var files []string
	loopback.Within(w.t, time.Minute, k.String()+": it is current, and its files are what they are without a kill", func() bool {
		entries, err := os.ReadDir(a.State())
		if err != nil {
			t.Fatal(err)
		}
		files = files[:0]
		for _, e := range entries {
			files = append(files, e.Name())
		}
		return w.current(i) && a.Status().Controller.CertificateSerial != "" && slices.Equal(files, want)
	})
	n := w.Node(w.servers[i])
	if mine := a.Status().Controller.CertificateSerial; mine != strings.TrimLeft(n.CertificateSerial, "0") {
		t.Errorf("%s: it uses the certificate %s, and the controller knows %s", k, mine, n.CertificateSerial)
	}
	_ = a.End(syscall.SIGTERM)
}
