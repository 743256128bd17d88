package daemon

import (
	"context"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// longestAction is how long one action may take before the watchdog restarts the
	// agent: a mkfs of a large disk, a download from a slow mirror.
	longestAction = 2 * time.Hour
	// longestPlan is how long planning, or the time between two actions, may take.
	longestPlan = 10 * time.Minute
	// lastAction is how long an action may continue after SIGTERM. It is shorter than
	// the unit's TimeoutStopSec.
	lastAction = 80 * time.Second
	// firstAnswer is how long a start waits for the controller before it converges the
	// last known good. A controller that is up answers sooner.
	firstAnswer = 15 * time.Second
	// idle is how long to sleep with nothing to converge; a document wakes the loop.
	idle = time.Hour
)

// converging keeps the machine in the state that the document in force describes.
func (d *Daemon) converging(ctx context.Context) error {
	lock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the process ends
	if err := d.awaitFirstAnswer(ctx); err != nil {
		return err
	}
	again := backoff.Backoff{Min: time.Second, Max: api.LongestRetry, Factor: 1.5}
	for {
		wait := d.pass(ctx, &again)
		if err := d.Upgrade.Switch(d.desired.document(), d.board.Snapshot().Controller.Connected); err != nil {
			return err
		}
		d.watchdog.alive("converging", wait+longestPlan)
		if err := sleep.For(ctx, wait, d.desired.wake); err != nil {
			return err
		}
	}
}

// awaitFirstAnswer gives the controller time to answer after a start. The agent may
// have been converging a newer document than the last known good when it stopped;
// converging the older one first would undo that work.
func (d *Daemon) awaitFirstAnswer(ctx context.Context) error {
	if d.kept == nil {
		return nil
	}
	d.watchdog.alive("converging", longestPlan)
	return sleep.For(ctx, firstAnswer, d.asked)
}

// pass converges once and returns how long to wait before the next pass.
func (d *Daemon) pass(ctx context.Context, again *backoff.Backoff) time.Duration {
	in, ok := d.desired.begin(ctx)
	if !ok {
		return idle
	}
	defer in.done()
	d.watchdog.alive("converging", longestPlan)
	if d.engine == nil {
		// The node's id is known by now: the document came from the controller or from disk.
		d.engine = d.Engine(d.board.Snapshot().NodeID)
	}
	before := d.board.Conditions()
	report := d.engine.Converge(in.ctx, in.doc, converge.Options{
		Confirmed: in.confirmed, Previous: before, Observe: d.observe, Grace: lastAction,
	})
	if report.Interrupted {
		return 0 // a newer document arrived, or ctx is done
	}
	d.board.Converged(report, in.digest)
	d.log(before, d.board.Conditions(), report.Generation)
	d.Upgrade.Passed(in.doc, report.Conditions)
	if report.Changed {
		debug.FreeOSMemory() // leave the memory to the node's workload
	}
	if report.Converged() {
		again.Reset()
		d.keep(in.doc)
		if d.OnApplied != nil {
			d.OnApplied(in.doc)
		}
		return backoff.Jitter(d.desired.howOften())
	}
	if !reflect.DeepEqual(before, report.Conditions) {
		again.Reset()
	}
	return min(again.Next(), d.desired.howOften())
}

// keep makes the document the last known good. A build on probation leaves the one that the
// previous build can read.
func (d *Daemon) keep(doc *api.NodeConfig) {
	if d.kept != nil && reflect.DeepEqual(d.kept, doc) || d.Upgrade.OnProbation() {
		return
	}
	if err := d.State.SaveApplied(doc); err != nil {
		if d.board.Unsaved(err) {
			d.Log.Error("the applied configuration could not be saved: after a reboot without the controller, the agent converges the previous one", "error", err)
		}
		return
	}
	d.board.Unsaved(nil)
	d.kept = doc
}

// observe is called before and after every action.
func (d *Daemon) observe(e converge.Event) {
	d.board.Acting(e)
	log := d.Log.With("condition", e.Condition, "action", e.Summary)
	switch {
	case !e.Finished:
		d.watchdog.alive("converging", longestAction)
		log.Info("action started", "event", api.EventActionStarted)
	case e.Err != nil:
		d.watchdog.alive("converging", longestPlan)
		log.Warn("action failed", "event", api.EventActionFailed, "took", e.Took.Round(time.Millisecond), "error", e.Err)
	default:
		d.watchdog.alive("converging", longestPlan)
		log.Info("action finished", "event", api.EventActionFinished, "took", e.Took.Round(time.Millisecond))
	}
}

// log logs the conditions that changed.
func (d *Daemon) log(before, after []api.Condition, generation int64) {
	previous := api.NodeStatus{Conditions: before}
	for _, c := range after {
		if old := previous.Condition(c.Type); old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		d.Log.Info("condition changed", "event", api.EventConditionChanged, "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message, "generation", generation)
	}
}

// lock waits for the lock: until no other process converges this machine and the lock
// file can be created.
func (d *Daemon) lock(ctx context.Context) (*state.Lock, error) {
	said := ""
	for {
		lock, err := state.TakeLock(d.LockFile, "nodehitch-agent run")
		if err == nil {
			if said != "" {
				d.board.Change(func(s *status.Status) { s.Problem = "" })
			}
			return lock, nil
		}
		if text := err.Error(); text != said {
			said = text
			d.Log.Warn("waiting for the lock", "error", err)
			d.board.Change(func(s *status.Status) { s.Problem = "waiting: " + text })
		}
		d.watchdog.alive("converging", longestPlan)
		if err := sleep.For(ctx, time.Second, nil); err != nil {
			return nil, err
		}
	}
}
