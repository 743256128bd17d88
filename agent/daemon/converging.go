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
)

const (
	// longestAction bounds what one action may take before the watchdog gives the
	// agent up: a mkfs of a large disk, a slow mirror.
	longestAction = 2 * time.Hour
	// longestPlan bounds planning and what is between two actions.
	longestPlan = 10 * time.Minute
	// lastAction is how long an action may go on after SIGTERM; the unit's
	// TimeoutStopSec is longer.
	lastAction = 80 * time.Second
	// firstWord is how long a start waits for the controller's word before it
	// converges the last known good; nobody who answers takes as long.
	firstWord = 15 * time.Second
	// idle is how long to sleep with nothing to converge; a document wakes.
	idle = time.Hour
)

// converging keeps the machine what the document in force asks for.
func (d *Daemon) converging(ctx context.Context) error {
	lock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the process ends
	if err := d.ask(ctx); err != nil {
		return err
	}
	again := backoff.Backoff{Min: time.Second, Max: time.Minute, Factor: 1.5}
	for {
		wait := d.pass(ctx, &again)
		d.pulse.beat("converging", wait+longestPlan)
		if err := backoff.Sleep(ctx, wait, d.desired.wake); err != nil {
			return err
		}
	}
}

// ask lets the controller have the first word after a start, if it is in sight: when
// the agent stopped it may have been at work on a newer document than the last known
// good, and would undo that only to do it again.
func (d *Daemon) ask(ctx context.Context) error {
	if d.kept == nil {
		return nil
	}
	d.pulse.beat("converging", longestPlan)
	return backoff.Sleep(ctx, firstWord, d.asked)
}

// pass converges once and returns how long to wait for the next time.
func (d *Daemon) pass(ctx context.Context, again *backoff.Backoff) time.Duration {
	order, ok := d.desired.begin(ctx)
	if !ok {
		return idle
	}
	defer order.done()
	d.pulse.beat("converging", longestPlan)
	if d.engine == nil {
		// A document came from the controller, to this node, or from its own disk.
		d.engine = d.Engine(d.board.Snapshot().NodeID)
	}
	before := d.board.Conditions()
	report := d.engine.Converge(order.ctx, order.doc, converge.Options{
		Confirmed: order.confirmed, Previous: before, Observe: d.observe, Grace: lastAction,
	})
	if report.Interrupted {
		return 0 // there is a newer document, or ctx is done
	}
	d.board.Converged(report, order.digest)
	d.log(before, d.board.Conditions(), report.Generation)
	if report.Changed {
		debug.FreeOSMemory() // the node's memory is for its work
	}
	if report.Converged() {
		again.Reset()
		d.keep(order.doc)
		if d.OnApplied != nil {
			d.OnApplied(order.doc)
		}
		return backoff.Jitter(d.desired.howOften())
	}
	if !reflect.DeepEqual(before, report.Conditions) {
		again.Reset()
	}
	return min(again.Next(), d.desired.howOften())
}

// keep makes the document the last known good.
func (d *Daemon) keep(doc *api.NodeConfig) {
	if d.kept != nil && reflect.DeepEqual(d.kept, doc) {
		return
	}
	if err := d.State.SaveApplied(doc); err != nil {
		if d.board.Unsaved(err) {
			d.Log.Error("the applied configuration is not kept: after a reboot without the controller the one before is converged", "error", err)
		}
		return
	}
	d.board.Unsaved(nil)
	d.kept = doc
}

// observe is told of every action.
func (d *Daemon) observe(e converge.Event) {
	d.board.Acting(e)
	log := d.Log.With("condition", e.Condition, "action", e.Summary)
	switch {
	case !e.Finished:
		d.pulse.beat("converging", longestAction)
		log.Info("action started", "event", api.EventActionStarted)
	case e.Err != nil:
		d.pulse.beat("converging", longestPlan)
		log.Warn("action failed", "event", api.EventActionFailed, "took", e.Took.Round(time.Millisecond), "error", e.Err)
	default:
		d.pulse.beat("converging", longestPlan)
		log.Info("action finished", "event", api.EventActionFinished, "took", e.Took.Round(time.Millisecond))
	}
}

// log says which conditions changed; a pass that changed none is silent.
func (d *Daemon) log(before, after []api.Condition, generation int64) {
	previous := api.NodeStatus{Conditions: before}
	for _, c := range after {
		if old := previous.Condition(c.Type); old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		d.Log.Info("condition changed", "event", api.EventConditionChanged, "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message, "generation", generation)
	}
}

// lock waits until it has the lock: until no other process converges this machine,
// and what keeps the file from being made is mended.
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
		d.pulse.beat("converging", longestPlan)
		if err := backoff.Sleep(ctx, time.Second, nil); err != nil {
			return nil, err
		}
	}
}
