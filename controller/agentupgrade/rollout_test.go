package agentupgrade_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// manual lets so many nodes be in flight at a time.
func manual(most config.Share) config.AgentUpgrade {
	return config.AgentUpgrade{Mode: api.UpgradeManually, MaxUnavailable: most}
}

func TestAgentsAreUpgradedInWavesByID(t *testing.T) {
	w := newWorld(t, manual("2"), 5)
	if r := w.rollout(); r.State != api.RolloutIdle || r.Version != ours || w.count(api.AgentWaiting) != 5 {
		t.Fatalf("before anybody asks: %+v", r)
	}
	w.sweep()
	if len(w.offers()) != 0 {
		t.Fatalf("nodes are told without anybody asking: %v", w.offers())
	}
	r := w.upgrade("")
	if r.State != api.RolloutProgressing || r.Wave != 1 || r.StartedBy != "alice" {
		t.Errorf("it begins as %+v", r)
	}
	for wave, want := range [][]int{{0, 1}, {2, 3}, {4}, nil} {
		if got := w.inFlight(); !slices.Equal(got, want) {
			t.Fatalf("wave %d is of the nodes %v, want %v", wave+1, got, want)
		}
		w.round()
		w.round()
	}
	r = w.rollout()
	if r.State != api.RolloutComplete || r.Wave != 3 || w.count(api.AgentUpToDate) != 5 || w.told != 5 {
		t.Errorf("it ends as %+v; agents were told %d times", r, w.told)
	}
}

// The events of an upgrade: each wave once, and its end once, whatever is swept.
func TestAnUpgradeIsToldOnce(t *testing.T) {
	w := newWorld(t, manual("2"), 3)
	told := func(want ...string) {
		t.Helper()
		list, err := w.Events.List(event.Query{Limit: 1000})
		w.must(err)
		var got []string
		for _, e := range list.Items {
			if e.VnfInstanceID == "" {
				got = append(got, strings.TrimSpace(string(e.Type)+" "+e.By+" "+e.Message))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the events are\n%q, want\n%q", got, want)
		}
	}
	told()
	w.upgrade("")
	begun := []string{"RolloutStarted alice", "RolloutWave alice wave 1, nodes: 2"}
	told(begun...)
	w.round()
	_, err := w.Agents.Pause(t.Context(), "bob")
	w.must(err)
	w.round()
	w.round()
	paused := append(begun, "RolloutPaused bob")
	told(paused...)
	w.upgrade("")
	told(append(paused, "RolloutContinued alice", "RolloutWave alice wave 2, nodes: 1")...)
	for range 4 {
		w.round()
	}
	all := append(paused, "RolloutContinued alice", "RolloutWave alice wave 2, nodes: 1", "RolloutCompleted controller")
	told(all...)
	w.restart()
	w.call()
	before := w.Commits()
	w.Clock.Advance(time.Second)
	w.sweep()
	if after := w.Commits(); before != after {
		t.Error("an upgrade that is complete is written again")
	}
	told(all...)
	w.machines[0].agent.Version = first // as its image has it
	for range 4 {
		w.round()
	}
	told(append(all, "RolloutWave controller wave 3, nodes: 1", "RolloutCompleted controller")...)
}

// What nodes report, and when, is all that a wave depends on: a status of the old agent says
// nothing of the new one.
func TestANodeIsInFlightUntilItsNewAgentIsHealthy(t *testing.T) {
	w := newWorld(t, manual("1"), 2)
	w.upgrade("")
	m := w.machines[0]
	stays := func(when string) {
		t.Helper()
		w.sweep()
		if got, wave := w.inFlight(), w.rollout().Wave; !slices.Equal(got, []int{0}) || wave != 1 {
			t.Fatalf("%s the nodes %v of wave %d are in flight, want the first, of the first", when, got, wave)
		}
	}
	w.poll(m)
	stays("before it reports")
	w.step(m)
	w.poll(m)
	stays("when the new agent has polled, and the last status is the old one's")
	w.report(m)
	stays("on probation")
	m.silent = true
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.call()
	}
	w.must(w.Lifecycle.Sweep(t.Context()))
	stays("lost")
	m.silent = false
	w.poll(m)
	w.step(m)
	m.broken = true
	w.report(m)
	stays("not Ready")
	m.broken = false
	w.report(m)
	w.sweep()
	if got := w.inFlight(); !slices.Equal(got, []int{1}) {
		t.Errorf("after it is healthy %v are in flight, want the second", got)
	}
}

func TestARollBackStopsTheUpgradeUntilAnOperatorGoesOn(t *testing.T) {
	w := newWorld(t, manual("2"), 6)
	w.carry("amd64", bad)
	w.upgrade(bad)
	w.poll(w.machines[0])
	w.step(w.machines[0])
	w.step(w.machines[0])
	w.report(w.machines[0])
	w.sweep()
	r := w.rollout()
	if r.State != api.RolloutStopped || !strings.Contains(r.Message, w.machines[0].id) || !strings.Contains(r.Message, "without becoming healthy") {
		t.Fatalf("after a roll-back: %+v", r)
	}
	w.poll(w.machines[1]) // it was told nothing yet
	if w.told != 1 {
		t.Error("a node is told an agent that another one has rolled back")
	}
	for range 3 {
		w.round()
	}
	if got := w.offers(); len(got) != 2 {
		t.Errorf("after the stop there are %d offers, want the 2 of before", len(got))
	}
	w.restart()
	w.round()
	if r := w.rollout(); r.State != api.RolloutStopped {
		t.Errorf("after a restart: %+v", r)
	}
	r = w.upgrade(bad) // she insists
	if r.State != api.RolloutProgressing || w.count(api.AgentRolledBack) != 1 {
		t.Fatalf("told to go on: %+v", r)
	}
	w.round()
	w.round()
	if r := w.rollout(); r.State != api.RolloutStopped || w.count(api.AgentRolledBack) < 2 {
		t.Errorf("the next roll-back: %+v", r)
	}
	w.carry("amd64", ours) // a mended one
	w.upgrade("")
	for range 8 {
		w.round()
	}
	if r := w.rollout(); r.State != api.RolloutComplete || w.count(api.AgentUpToDate) != 6 {
		t.Errorf("a mended agent: %+v", r)
	}
}

// A build is its content: a mended one may have the same version.
func TestARollBackIsAboutOneBuild(t *testing.T) {
	w := newWorld(t, manual("1"), 2)
	w.carry("amd64", bad)
	w.upgrade(bad)
	w.round()
	w.round()
	if r := w.rollout(); r.State != api.RolloutStopped {
		t.Fatalf("%+v", r)
	}
	w.mended = " mended"
	w.carry("amd64", bad)
	w.machines[0].refused = map[string]bool{}
	w.upgrade(bad)
	if got := w.inFlight(); !slices.Equal(got, []int{0}) || w.rollout().State != api.RolloutProgressing {
		t.Fatalf("%v are in flight, want the node that refuses the build before: %+v", got, w.rollout())
	}
	w.round()
	w.round()
	if r := w.rollout(); r.State != api.RolloutStopped {
		t.Errorf("it rolls the second build back too: %+v", r)
	}
}

// A backup does not know who was told since, and those may be between two agents.
func TestWhoWasToldSinceTheBackupHoldsAPlace(t *testing.T) {
	w := newWorld(t, manual("1"), 3)
	saved := w.Content()
	w.upgrade("")
	m := w.machines[0]
	w.poll(m)
	w.replace(saved)
	_, err := w.Store.BeginEpoch(store.NewEpoch{From: store.Origin{TakenAt: w.Clock.Now(), RestoredAt: w.Clock.Now()}})
	w.must(err)
	w.restart()
	_, err = w.Lifecycle.Instances.ConfirmInstance(t.Context(), instanceID)
	w.must(err)
	w.upgrade("")
	for _, other := range w.machines[1:] {
		w.poll(other)
		w.report(other)
	}
	w.sweep()
	if got := w.inFlight(); len(got) > 0 {
		t.Errorf("%v are in flight, and the first was told before the restore and has not reported", got)
	}
	w.poll(m)
	w.report(m)
	w.sweep()
	if got := w.inFlight(); len(got) > 0 || m.upgrade.Reason != api.UpgradeDownloading {
		t.Errorf("%v are in flight, and the first is %s", got, m.upgrade.Reason)
	}
	for range 6 {
		w.round()
	}
	if r := w.rollout(); r.State != api.RolloutComplete || w.told != 3 {
		t.Errorf("it ends as %+v, %d were told", r, w.told)
	}
}

func TestAPauseHoldsWhoHasNotBegun(t *testing.T) {
	w := newWorld(t, manual("2"), 4)
	w.upgrade("")
	w.poll(w.machines[0])
	r, err := w.Agents.Pause(t.Context(), "bob")
	w.must(err)
	if r.State != api.RolloutPaused || !strings.Contains(r.Message, "bob") {
		t.Fatalf("%+v", r)
	}
	for range 3 {
		w.round()
	}
	if w.told != 1 || w.machines[0].agent.Version != ours || w.machines[1].agent.Version != first {
		t.Errorf("%d were told; the first has %s, the second %s", w.told, w.machines[0].agent.Version, w.machines[1].agent.Version)
	}
	changed, stop := w.Hub.Watch(w.machines[1].id)
	defer stop()
	w.upgrade("")
	select {
	case <-changed:
	default:
		t.Error("who was held is not woken when it goes on")
	}
	for range 4 {
		w.round()
	}
	if r := w.rollout(); r.State != api.RolloutComplete {
		t.Errorf("%+v", r)
	}
}

// Each of these nodes is left alone, and told once the reason is gone.
func TestWhoIsNotToldToUpgrade(t *testing.T) {
	for _, c := range []struct {
		name   string
		is     func(*world, *machine)
		state  api.AgentState
		ends   func(*world, *machine)
		stands bool // no end of it
	}{
		{"not Ready", func(w *world, m *machine) { m.broken = true; w.report(m) }, api.AgentNotReady, func(w *world, m *machine) { m.broken = false; w.report(m) }, false},
		{"lost", func(w *world, m *machine) {
			m.silent = true
			for range 4 {
				w.Clock.Advance(30 * time.Second)
				w.call()
			}
			w.must(w.Lifecycle.Sweep(w.Context()))
		}, api.AgentLost, func(w *world, m *machine) { m.silent = false; w.poll(m) }, false},
		{"not heard of since the start", func(w *world, m *machine) {
			w.restart()
			m.silent = true
			w.call()
		}, api.AgentLost, func(w *world, m *machine) { m.silent = false; w.poll(m) }, false},
		{"a package's", func(w *world, m *machine) { m.managed = api.ManagedByPackage; w.report(m) }, api.AgentManagedByPackage, nil, true},
		{"disabled", func(w *world, m *machine) { m.managed = api.ManagedByNone; w.report(m) }, api.AgentUpgradeDisabled, nil, true},
		{"of another architecture", func(w *world, m *machine) {
			m.agent.Architecture = "arm64"
			w.poll(m)
			m.broken = true
			w.report(m)
			m.broken = false
			w.report(m)
		}, api.AgentNotCarried, func(w *world, _ *machine) { w.carry("arm64", ours) }, false},
		{"newer", func(w *world, m *machine) { m.agent.Version = "v1.3.0"; w.poll(m); w.report(m) }, api.AgentNewer, nil, true},
		{"of a release and some commits", func(w *world, m *machine) { m.agent.Version = ours + "-3-gabcdef0"; w.poll(m); w.report(m) }, api.AgentNewer, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, manual("100%"), 3)
			m := w.machines[1]
			c.is(w, m)
			w.upgrade("")
			if got := w.inFlight(); !slices.Equal(got, []int{0, 2}) || w.count(c.state) != 1 {
				t.Fatalf("the nodes %v are in flight, want 0 and 2; %+v", got, w.rollout().Nodes)
			}
			if c.stands {
				w.round()
				w.round()
				if r := w.rollout(); r.State != api.RolloutComplete {
					t.Errorf("it is %s, want Complete without that node", r.State)
				}
				return
			}
			c.ends(w, m)
			w.sweep()
			if got := w.inFlight(); !slices.Equal(got, []int{0, 1, 2}) {
				t.Errorf("afterwards %v are in flight", got)
			}
		})
	}
}

func TestAnAgentThatCannotUpgradeItselfIsLeftAlone(t *testing.T) {
	w := newWorld(t, manual("100%"), 2)
	w.must(w.Store.Update(func(t *store.Tx) error { // as an agent of the first release reports
		n, _, err := t.Nodes().Get(w.machines[0].id)
		if err != nil {
			return err
		}
		status := *n.Status
		status.AgentUpgrade = nil
		n.Status = &status
		return t.Nodes().Put(n.ID, n)
	}))
	w.upgrade("")
	if got := w.inFlight(); !slices.Equal(got, []int{1}) || w.count(api.AgentNotSupported) != 1 {
		t.Errorf("%v are in flight; %+v", got, w.rollout().Nodes)
	}
}

func TestATargetOfAnOperationIsNotToldToUpgrade(t *testing.T) {
	w := newWorld(t, manual("100%"), 3)
	late := w.machines[1]
	if !w.operate("http://b") {
		t.Fatal("the operation was refused")
	}
	w.report(w.machines[0])
	w.upgrade("")
	if got := w.inFlight(); len(got) != 0 || w.count(api.AgentInOperation) != 3 {
		t.Fatalf("%v are in flight while an operation waits for them; %+v", got, w.rollout().Nodes)
	}
	w.call() // all are Ready: the operation is complete
	w.sweep()
	if got := w.inFlight(); len(got) != 3 {
		t.Errorf("after the operation %v are in flight, want all; %s has %s", got, late.id, late.upgrade.Reason)
	}
}

func TestWhatMayBeAskedFor(t *testing.T) {
	w := newWorld(t, manual("10%"), 1)
	refused := func(version, want string) {
		t.Helper()
		_, err := w.Agents.Upgrade(t.Context(), version, "alice")
		var p *api.Problem
		if !errors.As(err, &p) || p.Type != want {
			t.Errorf("%s: %v, want %s", version, err, want)
		}
	}
	refused("v1.2.1", api.ProblemAgentTooNew)
	refused(ours+"-1-gabcdef0", api.ProblemAgentTooNew)
	refused("abcdef0", api.ProblemAgentTooNew) // whatever that is
	refused("v1.0.0", api.ProblemAgentNotCarried)
	w.carry("amd64", "v1.9.0")
	refused("", api.ProblemAgentNotCarried)
	if len(w.offers()) > 0 {
		t.Errorf("what was refused is offered: %v", w.offers())
	}
	w.carry("amd64", "v1.0.0")
	w.upgrade("v1.0.0") // by its name: a downgrade
	w.round()
	w.round()
	if got := w.machines[0].agent.Version; got != "v1.0.0" {
		t.Errorf("the node has %s", got)
	}
}

// A controller of an older version, after its own downgrade, does not ask for what it may not
// understand.
func TestAnOlderControllerDoesNotAskForTheNewerAgent(t *testing.T) {
	w := newWorld(t, manual("1"), 2)
	w.upgrade("")
	w.Agents.Version = "v1.1.5"
	w.round()
	w.round()
	if w.told != 0 || w.count(api.AgentNotCarried) == 0 {
		t.Errorf("%d were told; %+v", w.told, w.rollout().Nodes)
	}
}

func TestAutomaticUpgradesBeginWithAnotherController(t *testing.T) {
	w := newWorld(t, config.AgentUpgrade{Mode: api.UpgradeAutomatically, MaxUnavailable: "2"}, 4)
	w.carry("amd64", first)
	w.sweep()
	if r := w.rollout(); r.State != api.RolloutIdle {
		t.Errorf("without an agent of its version: %+v", r)
	}
	w.carry("amd64", ours)
	w.sweep()
	if r := w.rollout(); r.State != api.RolloutProgressing || r.StartedBy != "controller" || len(w.inFlight()) != 2 {
		t.Errorf("%+v", r)
	}
	w.carry("amd64", first)
	w.upgrade(first) // an operator goes back, and the controller does not undo that
	for range 4 {
		w.carry("amd64", first)
		w.round()
	}
	w.carry("amd64", ours)
	w.sweep()
	if r := w.rollout(); r.Version != first {
		t.Errorf("the controller undoes what an operator asked for: %+v", r)
	}
	w.Agents.Version = "v1.3.0"
	w.carry("amd64", "v1.3.0")
	w.sweep()
	if r := w.rollout(); r.Version != "v1.3.0" {
		t.Errorf("the next controller: %+v", r)
	}
}

func TestAPausedControllerBeginsNoUpgradeByItself(t *testing.T) {
	w := newWorld(t, config.AgentUpgrade{Mode: api.UpgradeAutomatically, MaxUnavailable: "2"}, 1)
	_, err := w.Agents.Pause(t.Context(), "bob")
	w.must(err)
	w.Agents.Version = "v1.3.0"
	w.carry("amd64", "v1.3.0")
	w.sweep()
	if r := w.rollout(); r.State != api.RolloutPaused || len(w.offers()) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestThereIsAPauseBetweenWaves(t *testing.T) {
	w := newWorld(t, config.AgentUpgrade{Mode: api.UpgradeManually, MaxUnavailable: "1", PauseSeconds: 600}, 2)
	w.upgrade("")
	w.round()
	w.round()
	pause, err := w.Agents.Sweep()
	w.must(err)
	if got := w.inFlight(); len(got) != 0 || pause <= 0 || pause > 10*time.Minute {
		t.Fatalf("%v are in flight, and %s of the pause are left", got, pause)
	}
	w.Clock.Advance(pause)
	w.sweep() // the silence is not noticed without the life cycle's own sweep
	if got := w.inFlight(); !slices.Equal(got, []int{1}) {
		t.Errorf("after the pause %v are in flight", got)
	}
}

// A build may break later than on probation.
func TestANodeThatIsNoMoreWellHoldsItsPlace(t *testing.T) {
	w := newWorld(t, manual("1"), 3)
	w.upgrade("")
	m := w.machines[0]
	w.call()
	w.step(m)
	w.step(m)
	w.call()
	m.broken = true
	w.sweep() // healthy: the second's turn
	w.report(m)
	w.round()
	w.round()
	if got := w.machines[2].agent.Version; len(w.inFlight()) != 0 || got != first {
		t.Errorf("%v are in flight, and the third has %s, while the first is not well", w.inFlight(), got)
	}
	m.broken = false
	w.report(m)
	w.sweep()
	if got := w.inFlight(); !slices.Equal(got, []int{2}) {
		t.Errorf("once the first is well %v are in flight", got)
	}
}

// What went wrong after an earlier upgrade says nothing of this one.
func TestANodeThatWasBrokenBeforeHoldsNoPlace(t *testing.T) {
	w := newWorld(t, manual("1"), 2)
	w.upgrade("")
	for range 4 {
		w.round()
	}
	m := w.machines[0]
	m.broken = true
	w.report(m)
	w.Agents.Version = "v1.3.0"
	w.carry("amd64", "v1.3.0")
	w.upgrade("")
	if got := w.inFlight(); !slices.Equal(got, []int{1}) {
		t.Errorf("%v are in flight, want the second; %+v", got, w.rollout().Nodes)
	}
}

// A node that a package has taken over meanwhile never answers what it was told.
func TestANodeThatAPackageTakesOverHoldsNoPlace(t *testing.T) {
	w := newWorld(t, manual("1"), 2)
	w.upgrade("")
	w.machines[0].managed = api.ManagedByPackage
	w.report(w.machines[0])
	w.sweep()
	if got := w.inFlight(); !slices.Equal(got, []int{1}) || w.count(api.AgentManagedByPackage) != 1 {
		t.Errorf("%v are in flight, want the second; %+v", got, w.rollout().Nodes)
	}
}

func TestASweepWithoutNewsWritesNothing(t *testing.T) {
	w := newWorld(t, manual("1"), 3)
	w.upgrade("")
	w.round()
	before := w.Commits()
	for range 5 {
		w.sweep()
		for _, m := range w.machines {
			w.poll(m)
		}
	}
	if w.Commits() != before {
		t.Error("a sweep, or a poll, wrote")
	}
}

// Only the nodes of the wave are woken, however many polls are held.
func TestAWaveWakesItsOwnNodesOnly(t *testing.T) {
	w := newWorld(t, manual("2"), 10)
	var woken []int
	watched := make([]<-chan struct{}, len(w.machines))
	for i, m := range w.machines {
		changed, stop := w.Hub.Watch(m.id)
		defer stop()
		watched[i] = changed
	}
	w.upgrade("")
	for i, changed := range watched {
		select {
		case <-changed:
			woken = append(woken, i)
		default:
		}
	}
	if !slices.Equal(woken, []int{0, 1}) {
		t.Errorf("the nodes %v are woken, want 0 and 1", woken)
	}
}
