package upgrade

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/supervisor"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAGoodBuildReplacesTheAgent(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "a good build", "the agent replaces itself by the build that the controller wants, with one restart, the same identity and no second convergence that writes")
	w := newWorkerVNF(t, 1)
	s := w.start(0, supervisor.Options{})
	before := w.keep(0, s)
	good := built(t)
	w.want(good)
	w.runs(0, versionOf(t, good), api.UpgradeUpToDate)
	loopback.Until(t, "the record is gone", func() bool { return !exists(s.State() + "/upgrade.json") })
	w.unchanged(s, before)
	if now, err := os.ReadFile(s.Binary); err != nil || !bytes.Equal(now, good) {
		t.Errorf("the binary has %d bytes, %v; want those of the wanted build", len(now), err)
	}
	actions := strings.Count(string(s.Log()), "action started")
	if actions != 0 {
		t.Errorf("%d actions were done; the worker needs none", actions)
	}
	if s.Starts() != 2 {
		t.Errorf("started %d times, want 2", s.Starts())
	}
	r.Figure("starts", "%d", s.Starts())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// The builds that do not work: they damage the identity and end, ask for a path that no
// controller has, end at their start, hang before they are ready, feed the watchdog and do
// nothing.
func TestABuildThatDoesNotWorkIsTakenBack(t *testing.T) {
	t.Parallel()
	faults := []string{"damage", "lost"}
	if results.Full() {
		faults = append(faults, "crash", "hang", "mute")
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := results.Begin(t, suite, "a build that does not work: "+fault, "the previous build takes it back, refuses it from then on, and has its identity and journal as before")
			w := newWorkerVNF(t, 1)
			s := w.start(0, supervisor.Options{Probation: 6 * time.Second, Starting: 10 * time.Second})
			before := w.keep(0, s)
			v := versionOf(t, built(t))
			if fault == "lost" {
				w.want(bytes.ReplaceAll(built(t), []byte("/v1/node/config"), []byte("/v1/node/nowhere")[:len("/v1/node/config")]))
			} else {
				w.want(badBuild(t, fault, v))
			}
			u := w.runs(0, other(v), api.UpgradeRolledBack)
			if u.Version != v || !strings.Contains(u.Message, "refused") || len(u.Refused) != 1 || u.Refused[0].Version != v {
				t.Errorf("it reports %+v", u)
			}
			w.unchanged(s, before, "upgrade.json")
			old, err := os.ReadFile(w.old)
			if now, err2 := os.ReadFile(s.Binary); err != nil || err2 != nil || !bytes.Equal(now, old) {
				t.Errorf("the binary is not the old build: %v, %v", err, err2)
			}
			starts := s.Starts()
			s.SetProbation(0)
			s.Restart() // it is refused from then on
			loopback.Until(t, "it has started again", func() bool { return s.Starts() > starts })
			w.runs(0, other(v), api.UpgradeRolledBack)
			if n := downloads(w); n != 1 {
				t.Errorf("the refused build was downloaded %d times", n)
			}
			// Another build is no refused one.
			w.want(built(t))
			if still := w.runs(0, v, api.UpgradeUpToDate).Refused; !slices.Equal(still, u.Refused) {
				t.Errorf("it refuses %v, expected %v", still, u.Refused)
			}
			w.unchanged(s, before, "upgrade.json") // which builds are refused
			r.Figure("starts until it was taken back", "%d", starts)
		})
	}
}

func downloads(w *workerVNF) int { return w.Logged("operation=getAgent") }

// If the controller is away, nobody can tell whether the new build works. It is tried again.
func TestAControllerThatIsAwayRefusesNoBuild(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "the controller is away during an upgrade", "a good build that finds no controller in its time is taken back, not refused, and tried again")
	w := newWorkerVNF(t, 1)
	s := w.start(0, supervisor.Options{Probation: 6 * time.Second})
	before := w.keep(0, s)
	good := built(t)
	v := versionOf(t, good)
	w.want(good)
	loopback.Until(t, "it switches", func() bool { return exists(s.State() + "/upgrade.json") })
	w.End(syscall.SIGKILL)
	loopback.Until(t, "it is taken back", func() bool {
		old, _ := os.ReadFile(w.old)
		now, _ := os.ReadFile(s.Binary)
		return bytes.Equal(now, old) && s.Status().AgentVersion == other(v)
	})
	record, err := os.ReadFile(s.State() + "/upgrade.json")
	if err != nil || bytes.Contains(record, []byte("refused")) && bytes.Contains(record, []byte(`"refused": [`)) || !bytes.Contains(record, []byte(api.UpgradeRolledBackUnjudged)) {
		t.Errorf("the record is %s, %v; want that nothing is refused", record, err)
	}
	s.SetProbation(0)
	s.Restart()
	w.Start()
	w.runs(0, v, api.UpgradeUpToDate)
	w.unchanged(s, before)
	r.Figure("starts", "%d", s.Starts())
}

// An operator may say in agent.yaml that the agent stays as it is.
func TestAnAgentThatIsNotToUpgradeStays(t *testing.T) {
	t.Parallel()
	w := newWorkerVNF(t, 1)
	config := w.AgentConfig(w.instance)
	config.Upgrade = "none"
	w.want(built(t))
	s := supervisor.Start(t, supervisor.Options{Agent: loopback.AgentOptions{Binary: w.old, ServerID: w.servers[0], Config: config}})
	v := versionOf(t, built(t))
	if u := w.runs(0, other(v), api.UpgradeDisabled); u.ManagedBy != api.ManagedByNone {
		t.Errorf("it reports %+v", u)
	}
	if s.Starts() != 1 || downloads(w) != 0 {
		t.Errorf("%d starts, %d downloads", s.Starts(), downloads(w))
	}
}
