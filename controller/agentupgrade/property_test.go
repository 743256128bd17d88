package agentupgrade_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// drawn is a *rapid.T with a directory of its own.
type drawn struct {
	*rapid.T
	dir string
}

func (d drawn) TempDir() string { return d.dir }

func (d drawn) Context() context.Context { return context.Background() }

// fleet is a world in any order of events.
type fleet struct {
	*world
	most int
	// halted: it was paused or has stopped, and no operator has gone on since.
	halted bool
	stops  int
	// saved is the store as it was at the last backup.
	saved []byte
}

// Three things hold in every order of events. The nodes that change their agent at a time, as the
// machines themselves count them, stay within maxUnavailable. No node is told what must not be
// told, or anything after a roll-back or a pause. Each node that can be upgraded is, once nothing
// hinders it.
func TestNoOrderOfEventsUpgradesTooManyAtATime(t *testing.T) {
	told, stops := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("/dev/shm", "nodehitch-rollout") // what a disk costs is nothing to these
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		most := rapid.IntRange(1, 4).Draw(rt, "maxUnavailable")
		f := &fleet{most: most, world: newWorld(drawn{rt, dir}, config.AgentUpgrade{Mode: api.UpgradeManually,
			MaxUnavailable: config.Share(string(rune('0' + most))), PauseSeconds: rapid.SampledFrom([]int{0, 0, 45}).Draw(rt, "pause")}, 7)}
		for _, m := range f.machines {
			m.managed = rapid.SampledFrom([]api.AgentUpgradeManagedBy{api.ManagedByController, api.ManagedByController, api.ManagedByController, api.ManagedByPackage}).Draw(rt, "managed by")
		}
		f.call()
		f.upgrade(ours)
		rt.Repeat(f.events())
		f.ends()
		told, stops = told+f.told, stops+f.stops
	})
	t.Logf("agents were told %d times, and upgrades stopped %d times", told, stops)
	if told == 0 || stops == 0 {
		t.Error("the events upgrade nothing, or nothing stops")
	}
}

func (f *fleet) events() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":               f.check,
		"poll":           func(t *rapid.T) { f.poll(f.any(t)) },
		"step":           func(t *rapid.T) { f.step(f.any(t)) },
		"report":         func(t *rapid.T) { f.report(f.any(t)) },
		"all call":       func(*rapid.T) { f.call() },
		"all call again": func(*rapid.T) { f.call() },
		"all step": func(*rapid.T) {
			for _, m := range f.machines {
				f.step(m)
			}
		},
		"sweep":        func(*rapid.T) { f.swept() },
		"sweep again":  func(*rapid.T) { f.swept() },
		"falls silent": func(t *rapid.T) { f.any(t).silent = true },
		"is back":      func(t *rapid.T) { f.any(t).silent = false },
		"breaks":       func(t *rapid.T) { m := f.any(t); m.broken = !m.broken },
		"operate": func(t *rapid.T) {
			f.operate(rapid.SampledFrom([]string{"http://a", "http://b", "http://c"}).Draw(t, "proxy"))
		},
		"time":    f.time,
		"restart": func(*rapid.T) { f.restart() },
		"backup":  func(*rapid.T) { f.backup() },
		"restore": func(*rapid.T) { f.restore() },
		"a build that does not work": func(*rapid.T) {
			f.carry("amd64", bad)
			f.goOn(bad)
			for range 3 {
				f.call()
				for _, m := range f.machines {
					f.step(m)
				}
			}
			f.call()
			f.swept()
		},
		"pause": func(*rapid.T) {
			_, err := f.Agents.Pause(f.Context(), "bob")
			f.must(err)
			f.halted = true
		},
		"go on": func(*rapid.T) { f.goOn(f.rollout().Version) },
		"ask": func(t *rapid.T) {
			version := rapid.SampledFrom([]string{ours, bad, bad}).Draw(t, "version")
			f.carry("amd64", version)
			f.goOn(version)
		},
	}
}

func (f *fleet) any(t *rapid.T) *machine { return rapid.SampledFrom(f.machines).Draw(t, "machine") }

func (f *fleet) goOn(version string) {
	f.Helper()
	f.halted = false
	f.watched(func() {
		if _, err := f.Agents.Upgrade(f.Context(), version, "alice"); err != nil {
			f.halted = true // the agents of that version are gone
		}
	})
}

// time passes, in which everyone who is not silent calls, as agents do.
func (f *fleet) time(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "times 25 s") {
		f.Clock.Advance(25 * time.Second)
		f.call()
		f.must(f.Lifecycle.Sweep(f.Context()))
	}
}

func (f *fleet) backup() {
	f.Helper()
	f.saved = f.Content() // nobody writes it now
}

// restore takes the controller back to the last backup, and the machines not. The instance is
// confirmed at once.
func (f *fleet) restore() {
	f.Helper()
	if f.saved == nil {
		return
	}
	replaced := f.Store.Epoch()
	f.replace(f.saved)
	_, err := f.Store.BeginEpoch(store.NewEpoch{From: store.Origin{TakenAt: f.Clock.Now(), RestoredAt: f.Clock.Now()}, After: replaced})
	f.must(err)
	f.restart()
	_, err = f.Lifecycle.Instances.ConfirmInstance(f.Context(), instanceID)
	f.must(err)
	f.halted = f.rollout().State == api.RolloutPaused || f.rollout().State == api.RolloutStopped
}

func (f *fleet) swept() {
	f.Helper()
	f.watched(f.sweep)
	if f.rollout().State == api.RolloutStopped {
		if !f.halted {
			f.stops++
		}
		f.halted = true
	}
}

// watched wants that only those are newly offered an agent who may be.
func (f *fleet) watched(do func()) {
	f.Helper()
	nodes, before := f.nodes(), f.offers()
	do()
	for id, o := range f.offers() {
		if was, ok := before[id]; ok && was.At.Equal(o.At) || o.GivenUp {
			continue
		}
		m, n := f.machine(id), nodes[id]
		if f.halted {
			f.Errorf("%s is told although the upgrade is halted", id)
		}
		if !n.Ready || n.State == api.NodeLost || m.managed != api.ManagedByController {
			f.Errorf("%s is told: %s, Ready %v, managed by %s", id, n.State, n.Ready, m.managed)
		}
		if f.target(id) {
			f.Errorf("%s is told and a target of an operation in progress", id)
		}
	}
}

func (f *fleet) nodes() map[string]api.Node {
	f.Helper()
	list, err := f.Lifecycle.Nodes.ListNodes(f.Context(), "", false)
	f.must(err)
	nodes := map[string]api.Node{}
	for _, n := range list {
		nodes[n.ID] = n
	}
	return nodes
}

func (f *fleet) machine(id string) *machine {
	return f.machines[slices.IndexFunc(f.machines, func(m *machine) bool { return m.id == id })]
}

func (f *fleet) target(id string) bool {
	f.Helper()
	list, err := f.Lifecycle.Operations.ListOperations(f.Context(), instanceID)
	f.must(err)
	return slices.ContainsFunc(list, func(o api.Operation) bool {
		return o.State == api.Processing && slices.ContainsFunc(o.Targets, func(t api.OperationTarget) bool { return t.NodeID == id })
	})
}

// check counts on the machines.
func (f *fleet) check(*rapid.T) {
	affected := 0
	for _, m := range f.machines {
		if m.affected() {
			affected++
		}
	}
	if affected > f.most {
		f.Fatalf("%d nodes are between two agents, at most %d may be", affected, f.most)
	}
	if r := f.rollout(); len(r.InFlight) > r.MaxUnavailable || r.MaxUnavailable != f.most {
		f.Fatalf("the controller counts %d in flight of at most %d", len(r.InFlight), r.MaxUnavailable)
	}
}

// ends has what hinders go away.
func (f *fleet) ends() {
	f.Helper()
	for _, m := range f.machines {
		m.silent, m.broken = false, false
	}
	f.carry("amd64", ours)
	f.goOn(ours)
	for range 3 * len(f.machines) {
		f.Clock.Advance(50 * time.Second)
		f.round()
		f.check(nil)
	}
	for _, m := range f.machines {
		if want := map[bool]string{true: ours, false: first}[m.managed == api.ManagedByController]; m.agent.Version != want {
			f.Errorf("in the end %s has %s, want %s; %+v", m.id, m.agent.Version, want, f.rollout())
		}
	}
}
