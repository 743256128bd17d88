// Package daemon runs the agent's loops: one converges the machine to the document
// in force, one stays connected to the controller, one reports. They share only the
// status board and the document in force; the first one continues without the others.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/heatsignal"
	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/metadata"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/agent/upgrade"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options configure a daemon. All are required except Metadata, OnLink, OnApplied, Heat,
// Upgrade and Dial.
type Options struct {
	Config  *config.Config
	State   *state.Directory
	Machine *identity.Machine
	// Metadata is the metadata service with the machine's identity proof; nil for the
	// machine's own.
	Metadata *metadata.Service
	// Engine makes the engine once the node's id is known.
	Engine func(nodeID string) *converge.Engine
	Facts  api.Facts
	// StatusFile is the path of the status file, see package status.
	StatusFile string
	// LockFile is locked while the daemon runs.
	LockFile string
	// Notify tells the service manager, in the words of sd_notify(3).
	Notify func(state string)
	// Watchdog is the service manager's watchdog interval; 0 = off.
	Watchdog time.Duration
	// OnLink is called with every new link to the controller; may be nil.
	OnLink func(*link.Link)
	// OnApplied is called with the document after each pass that converged; may be nil.
	OnApplied func(*api.NodeConfig)
	// Heat signals once whether the machine converged; nil if no stack waits for it.
	Heat *heatsignal.Signaller
	// Upgrade replaces this build; nil for an agent that an operator upgrades by hand.
	Upgrade *upgrade.Upgrader
	// Dial makes the connections to the controller; nil for net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Daemon runs once.
type Daemon struct {
	Options
	files    enroll.Files
	board    *status.Board
	desired  *desired
	link     atomic.Pointer[link.Link]
	resumed  chan struct{} // the controller answers again
	asked    chan struct{} // closed after the first attempt to reach the controller
	once     sync.Once     // closes asked
	watchdog watchdog

	// Used only by the converging loop once it runs.
	engine *converge.Engine
	kept   *api.NodeConfig // the last known good
}

// New prepares a daemon.
func New(o Options) *Daemon {
	if o.Metadata == nil {
		o.Metadata = metadata.This()
	}
	if o.Upgrade == nil {
		o.Upgrade = upgrade.New(upgrade.Options{Disabled: true, State: o.State, Log: o.Log})
	}
	return &Daemon{
		Options: o, files: enroll.Files{Directory: o.State}, board: status.NewBoard(o.Facts, nil),
		desired: newDesired(), resumed: make(chan struct{}, 1), asked: make(chan struct{}),
	}
}

// Run returns when ctx is done and the current action has finished, or when another build
// of the agent has to start: with nil if that is the wanted one. It sends READY
// after it has loaded the state on disk: a service whose node is not converged yet has
// started anyway.
func (d *Daemon) Run(ctx context.Context) error {
	if err := d.Upgrade.Open(d.upgrade, d.desired.poke); err != nil {
		return err
	}
	loops := d.load(ctx)
	group, inner := errgroup.WithContext(ctx)
	stop := context.AfterFunc(inner, func() { d.Notify("STOPPING=1") })
	defer stop()
	for _, loop := range append(loops, d.saving, d.watching, d.signalling, d.Upgrade.Run) {
		group.Go(func() error { return loop(inner) })
	}
	d.Notify("READY=1")
	err := group.Wait()
	d.stopped()
	switch {
	case errors.Is(err, upgrade.ErrSwitched):
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return d.Upgrade.Stopped()
	}
	return err
}

// upgrade shows how far the agent's upgrade is.
func (d *Daemon) upgrade(u api.AgentUpgrade) {
	d.board.Change(func(s *status.Status) { s.Node.AgentUpgrade = &u })
}

// load reads the state on disk and returns the loops to run: none if the state is
// another machine's, which the status says. Damaged state is ignored: the controller
// sends it again, or says what the operator has to do.
func (d *Daemon) load(ctx context.Context) (loops []func(context.Context) error) {
	known, err := d.verifyMachine(ctx)
	if err != nil {
		d.problem(err)
		return nil
	}
	if known {
		d.restore()
	}
	return append(loops, d.converging, d.contact, d.reporting)
}

// problem shows an error that only an operator can fix.
func (d *Daemon) problem(err error) {
	d.Log.Error("stopped: only an operator can fix this", "error", err)
	d.board.Change(func(s *status.Status) { s.Problem = err.Error() })
}

// restore puts the last applied document in force.
func (d *Daemon) restore() {
	applied, err := d.State.Applied()
	if err != nil {
		// The controller sends it again. The file stays until then, for inspection.
		d.Log.Error("the last applied configuration cannot be used", "error", err)
		return
	}
	if applied == nil {
		return
	}
	var conditions []api.Condition
	if before, err := status.Load(d.StatusFile); err == nil {
		conditions = before.Node.Conditions
	}
	d.board.Restore(applied, applied.Digest(), conditions)
	d.desired.put(applied, applied.Digest())
	d.kept = applied
	d.Log.Info("converging the last applied configuration", "generation", applied.Generation)
}

// stopped saves the last status.
func (d *Daemon) stopped() {
	d.board.Change(func(s *status.Status) {
		now := time.Now().UTC()
		s.StoppedAt, s.Controller.Connected, s.Node.Activity = &now, false, nil
	})
	if err := status.Save(d.StatusFile, d.board.Snapshot()); err != nil {
		d.Log.Warn("the last status could not be saved", "error", err)
	}
}

// saving keeps the status file and the service manager's status line up to date.
func (d *Daemon) saving(ctx context.Context) error {
	changed := d.board.Subscribe()
	var line, failure string
	for {
		s := d.board.Snapshot()
		if now := s.Summary(); now != line {
			line = now
			d.Notify("STATUS=" + oneLine(line))
		}
		if err := status.Save(d.StatusFile, s); err != nil && err.Error() != failure {
			failure = err.Error()
			d.Log.Warn("the status file could not be updated", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// signalling signals Heat if a stack waits, and returns once Heat has the signal.
func (d *Daemon) signalling(ctx context.Context) error {
	if d.Heat == nil {
		return nil
	}
	return d.Heat.Run(ctx, d.board.Subscribe(), d.board.Snapshot)
}

// oneLine makes the text fit a STATUS= line.
func oneLine(text string) string {
	const longest = 400
	out := []rune(text)
	for i, r := range out {
		if r < ' ' {
			out[i] = ' '
		}
	}
	if len(out) > longest {
		return fmt.Sprintf("%s…", string(out[:longest]))
	}
	return string(out)
}
