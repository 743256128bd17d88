package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/supervisor"
	"github.com/nodehitch/nodehitch/shared/api"
)

// kill is where an agent is killed during its upgrade: as one of its threads is about to make
// the n-th of these calls about one of the upgrade's files.
type kill struct {
	call, file string
	n          int
}

func (k kill) String() string { return fmt.Sprintf("%s %d %s", k.call, k.n, k.file) }

// turns are calls of an upgrade, from the download to the rename; * is the build's SHA-256.
// agent/upgrade kills the switch alone at each of its calls.
var turns = []kill{
	{"mkdirat", "bin/.nodehitch-agent.new", 1},
	{"openat", "bin/.nodehitch-agent.new/*.part", 1},
	{"write", "bin/.nodehitch-agent.new/*.part", 1},
	{"write", "bin/.nodehitch-agent.new/*.part", 40},
	{"fsync", "bin/.nodehitch-agent.new/*.part", 1},
	{"renameat", "bin/.nodehitch-agent.new/*.part", 1},
	{"fchmod", "bin/.nodehitch-agent.new/*", 1},
	{"fsync", "bin/.nodehitch-agent.new/*", 1},
	{"renameat", "state/upgrade-identity.pem", 1},
	{"unlinkat", "bin/.nodehitch-agent.previous", 1},
	{"linkat", "bin/.nodehitch-agent.previous", 1},
	{"fsync", "bin", 1},
	{"renameat", "state/upgrade.json", 1},
	{"renameat", "bin/nodehitch-agent", 1},
}

// TestKilledDuringAnUpgrade kills agents at the calls of their upgrade. Whatever build is
// there then is started, and the upgrade is done in the end.
func TestKilledDuringAnUpgrade(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "the upgrade is killed anywhere", "SIGKILL at the calls of an upgrade: one or the other build is there and runs, with the same identity and journal, and in the end the wanted one")
	kills := turns
	if !results.Full() {
		kills = []kill{turns[3], turns[8], turns[11], turns[13]}
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v; `make deps` installs it", err)
	}
	w := newWorkerVNF(t, len(kills))
	good := built(t)
	killed := 0
	const together = 7
	for first := 0; first < len(kills); first += together {
		group := kills[first:min(first+together, len(kills))]
		agents, before := make([]*supervisor.Supervisor, len(group)), make([]kept, len(group))
		for i, k := range group {
			agents[i] = w.start(first+i, supervisor.Options{WrapFirst: k.under(strace, good)})
		}
		for i, s := range agents {
			before[i] = w.keep(first+i, s)
		}
		w.want(good)
		for i, s := range agents {
			loopback.Until(t, group[i].String()+": the first agent has ended", func() bool { return s.Starts() > 1 })
			if strings.Contains(string(s.Log()), "supervisor: the agent has ended: signal: killed") {
				killed++
			} else if group[i].n == 1 { // a later call may come from another thread
				t.Errorf("%s: it was not killed", group[i])
			}
			if out, err := exec.CommandContext(t.Context(), s.Binary, "version").CombinedOutput(); err != nil {
				t.Errorf("%s: no build runs: %v: %s", group[i], err, out)
			}
		}
		for i, s := range agents {
			w.runs(first+i, versionOf(t, good), api.UpgradeUpToDate)
			loopback.Until(t, group[i].String()+": the record is gone", func() bool { return !exists(s.State() + "/upgrade.json") })
			w.unchanged(s, before[i])
			s.Stop()
		}
		w.want(nil)
	}
	r.Figure("agents", "%d", len(kills))
	r.Figure("killed during the upgrade", "%d", killed)
}

// under is the program under which the agent in a folder runs to be killed there.
func (k kill) under(strace string, build []byte) func(dir string) []string {
	sum := sha256.Sum256(build)
	file := strings.ReplaceAll(k.file, "*", hex.EncodeToString(sum[:]))
	return func(dir string) []string {
		// Calls are counted for each thread, so the fewer the better.
		return []string{"env", "GOMAXPROCS=1", strace, "-f", "-qq", "-o", "/dev/null", "-P", filepath.Join(dir, file),
			"-e", "trace=" + k.call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", k.call, k.n)}
	}
}
