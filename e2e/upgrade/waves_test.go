package upgrade

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/supervisor"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// The versions of a fleet: releases, whose order a controller knows. They are as long as each
// other.
const (
	ofController = "v1.9.0"
	ofAgents     = "v1.0.0"
)

// TestWaves upgrades a fleet in waves: to builds that work, to builds that do not, and with
// the controller away in the middle.
func TestWaves(t *testing.T) {
	for _, size := range []struct {
		agents, most int
		probation    time.Duration
		long         bool
	}{{6, 2, 15 * time.Second, false}, {200, 20, 40 * time.Second, true}} {
		t.Run(fmt.Sprintf("%d agents", size.agents), func(t *testing.T) {
			c := results.Begin(t, suite, fmt.Sprintf("waves over %d agents", size.agents), "good builds and bad ones, the controller away in the middle: never more than maxUnavailable nodes between two builds, all back, none enrolled again, no good build refused")
			if size.long {
				results.LongOnly(t)
			}
			f := newFleet(t, size.agents, size.most, loopback.Options{Settings: map[string]string{"metricsListen": loopback.FreeAddress(t)}})
			f.inFlight = func() (int, error) {
				metrics, err := f.Metrics()
				return int(metrics[`nodehitch_agent_rollout_nodes{state="InFlight"}`]), err
			}
			for i := range size.agents {
				f.agents = append(f.agents, process{f.start(i, supervisor.Options{Probation: size.probation, Starting: 5 * time.Second})})
			}
			f.settled(ofAgents)
			f.through(c)
		})
	}
}

// through rolls out one version after the other.
func (f *fleet) through(c *results.Case) {
	f.t.Helper()
	f.begin()
	f.roll("v1.1.0", f.good("v1.1.0"))
	for i, fault := range []string{"crash", "hang", "lost", "mute", "damage"} {
		if testing.Short() && fault != "crash" {
			continue
		}
		f.rollBack(fmt.Sprintf("v1.2.%d", i), fault)
	}
	f.away("v1.3.0")
	f.settled("v1.3.0")
	f.stop()
	c.Figure("agents", "%d; at most %d may be in flight", len(f.agents), f.most)
	c.Figure("in flight at most, as the controller says", "%d", f.mostInFlight)
	c.Figure("between two builds at most, by the agents' records", "%d", f.mostBetween)
	c.Figure("samples", "%d", f.samples)
	c.Figure("waves", "%d", f.waves)
	c.Figure("enrollments", "%d", f.enrollments())
}

// fleet is a controller and the agents of its nodes.
type fleet struct {
	*workerVNF
	most    int
	agents  []agent
	before  []kept
	actions []int  // done before the first upgrade
	program []byte // of ofAgents
	running string // the version that all have
	waves   int
	// inFlight is how many nodes the controller says are in flight; an error while it is
	// away.
	inFlight func() (int, error)

	// What an observer has seen that looks at the agents and the controller all the time, until
	// stop.
	mostInFlight, mostBetween int
	samples                   int
	stop                      func()
}

// newFleet starts a controller for a fleet that has no agents yet.
func newFleet(t *testing.T, agents, most int, o loopback.Options) *fleet {
	t.Helper()
	bin := t.TempDir()
	controller, agent := filepath.Join(bin, "nodehitch-controller"), filepath.Join(bin, "nodehitch-agent")
	build.Compile(t, controller, build.Controller, ofController)
	build.Compile(t, agent, build.Agent, ofAgents)
	o.Binary = controller
	maps.Copy(o.Settings, map[string]string{"agentUpgrade": fmt.Sprintf("{maxUnavailable: %d}", most), "log": "{level: debug}",
		"pollSeconds": "10", "convergeSeconds": "60"})
	f := &fleet{most: most, workerVNF: workerVNFOf(t, agents, o)}
	f.old = agent
	var err error
	if f.program, err = os.ReadFile(agent); err != nil {
		t.Fatal(err)
	}
	return f
}

// begin notes what no upgrade may change, and looks at the agents from now on.
func (f *fleet) begin() {
	f.t.Helper()
	for i, a := range f.agents {
		f.before, f.actions = append(f.before, f.withJournal(i, a)), append(f.actions, f.done(a))
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go f.observe(stop, ended)
	f.stop = sync.OnceFunc(func() { close(stop); <-ended })
	f.t.Cleanup(f.stop)
}

// good is a build of a version that works.
func (f *fleet) good(version string) []byte {
	return build.Of(f.t, f.program, ofAgents, version)
}

// roll upgrades the whole fleet.
func (f *fleet) roll(version string, program []byte) {
	f.t.Helper()
	f.ask(version, program)
	f.await("every agent is "+version, func() bool { return f.rollout().State == api.RolloutComplete })
	f.settled(version)
	f.waves += f.rollout().Wave
}

// ask asks for a version that the controller carries from now on.
func (f *fleet) ask(version string, program []byte) {
	f.t.Helper()
	build.Put(f.t, filepath.Join(f.carried, "nodehitch-agent-amd64"), program)
	if _, err := client.Read[api.AgentRollout](f.API.UpgradeAgents(f.t.Context(), api.AgentUpgradeRequest{Version: version})); err != nil {
		f.t.Fatal(err)
	}
}

// rollBack asks for a build that does not work: the first roll-back stops it. A node that was not
// Ready when the first were told may have been told later, in one of the same places.
func (f *fleet) rollBack(version, fault string) {
	f.t.Helper()
	if fault == "lost" {
		f.ask(version, bytes.ReplaceAll(f.good(version), []byte("/v1/node/config"), []byte("/v1/node/nowhere")[:len("/v1/node/config")]))
	} else {
		f.ask(version, badBuild(f.t, fault, version))
	}
	f.await(fault+": it has stopped", func() bool { return f.rollout().State == api.RolloutStopped })
	f.await(fault+": all are back", func() bool {
		for _, a := range f.agents {
			if r := recordOf(f.t, a); r.open() || a.Running() != f.running {
				return false
			}
		}
		return true
	})
	r := f.rollout()
	if !strings.Contains(r.Message, "rolled "+version+" back") {
		f.t.Errorf("%s: it stopped after wave %d: %s", fault, r.Wave, r.Message)
	}
	refused := 0
	for _, a := range f.agents {
		if strings.Contains(string(recordOf(f.t, a).text), version) {
			refused++
		}
	}
	if refused == 0 || refused > f.most {
		f.t.Errorf("%s: %d agents refuse it, want 1 to %d", fault, refused, f.most)
	}
	f.waves += r.Wave
}

// away upgrades the fleet and kills the controller in the middle, until an agent has gone back
// because nobody could judge its new build.
func (f *fleet) away(version string) {
	f.t.Helper()
	program := f.good(version)
	f.ask(version, program)
	f.await("a third is "+version, func() bool { return f.upToDate() >= len(f.agents)/3 && len(f.rollout().InFlight) > 0 })
	f.await("an agent has switched and is not healthy", func() bool { return f.between() > 0 })
	f.End(syscall.SIGKILL)
	f.await("who was between two builds is not any more", func() bool { return f.between() == 0 })
	f.Start()
	f.await("every agent is "+version, func() bool { return f.rollout().State == api.RolloutComplete })
	sum := sha256.Sum256(program)
	for _, a := range f.agents {
		if r := recordOf(f.t, a); bytes.Contains(r.text, []byte(hex.EncodeToString(sum[:]))) {
			f.t.Errorf("%s keeps a record of the good build: %s", a, r.text)
		}
	}
	f.waves += f.rollout().Wave
}

// settled waits until every node is Ready by an agent of the version, and wants what no
// upgrade may change.
func (f *fleet) settled(version string) {
	f.t.Helper()
	f.await("every node is Ready by "+version, func() bool {
		nodes, err := client.All[api.Node](func(page client.RequestEditorFn) (*http.Response, error) {
			return f.API.ListNodes(f.t.Context(), nil, page)
		})
		if err != nil {
			f.t.Fatal(err)
		}
		for _, n := range nodes {
			if !n.Ready || n.Status.Facts.AgentVersion != version || n.Status.AgentUpgrade == nil || n.Status.AgentUpgrade.Reason != api.UpgradeUpToDate {
				return false
			}
		}
		return true
	})
	f.running = version
	for i := range f.before {
		a := f.agents[i]
		if n := f.done(a) - f.actions[i]; n > 0 {
			f.t.Errorf("%s has changed its machine %d times", a, n)
		}
		for name, content := range f.read(a) {
			if content != f.before[i][name] {
				f.t.Errorf("%s: %s has changed", a, name)
			}
		}
	}
	if n := f.enrollments(); n != len(f.agents) {
		f.t.Errorf("%d enrollments of %d agents", n, len(f.agents))
	}
}

// done is how many actions an agent has begun.
func (f *fleet) done(a agent) int {
	f.t.Helper()
	log, err := a.Logged()
	if err != nil {
		f.t.Fatal(err)
	}
	return bytes.Count(log, []byte("action started"))
}

func (f *fleet) enrollments() int { return f.Logged("result=enrolled") + f.Logged("result=reissued") }

func (f *fleet) rollout() api.AgentRollout {
	f.t.Helper()
	r, err := client.Read[api.AgentRollout](f.API.GetAgents(f.t.Context(), nil))
	if err != nil {
		f.t.Fatal(err)
	}
	return *r
}

func (f *fleet) upToDate() (nodes int) {
	f.t.Helper()
	for _, n := range f.rollout().Nodes {
		if n.State == api.AgentUpToDate {
			nodes += n.Nodes
		}
	}
	return nodes
}

// await is loopback.Until for what takes longer with many agents.
func (f *fleet) await(what string, ok func() bool) {
	f.t.Helper()
	deadline := time.After(15 * time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("timed out; expected: %s", what)
		}
	}
}

// record is what an agent keeps of an upgrade.
type record struct {
	text    []byte
	To      struct{ SHA256 string }
	Outcome string
}

// open: the new build runs, or is about to, and is not healthy yet.
func (r record) open() bool { return r.To.SHA256 != "" && r.Outcome == "" }

func recordOf(t *testing.T, a agent) (r record) {
	text, err := a.Read("upgrade.json")
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Error(err)
	}
	r.text = text
	return r
}

// between is how many agents are between two builds, by their own records.
func (f *fleet) between() (agents int) {
	for _, a := range f.agents {
		if recordOf(f.t, a).open() {
			agents++
		}
	}
	return agents
}

// observe looks all the time: neither the controller nor the agents may ever have more in
// flight than may be.
func (f *fleet) observe(stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-f.t.Context().Done():
			return
		case <-tick.C:
		}
		between := f.between()
		inFlight, err := f.inFlight()
		if err != nil {
			inFlight = 0 // it is away
		}
		f.samples++
		f.mostBetween, f.mostInFlight = max(f.mostBetween, between), max(f.mostInFlight, inFlight)
		if between > f.most || inFlight > f.most {
			f.t.Errorf("%d agents are between two builds, and the controller has %d in flight; at most %d may be", between, inFlight, f.most)
		}
	}
}
