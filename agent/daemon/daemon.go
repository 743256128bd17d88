// Package daemon runs the agent's loops: one keeps the machine what the document
// in force asks for, one keeps the line to the controller, one reports. They
// share a board and the document in force, and nothing else; the first goes on
// without the others.
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
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options are what a daemon is made of. All are required but Metadata, OnLink, OnApplied,
// Heat and Dial.
type Options struct {
	Config  *config.Config
	State   *state.Directory
	Machine *identity.Machine
	// Metadata is where the machine reads what proves which server it is; nil for its
	// own service.
	Metadata *metadata.Service
	// Engine makes the engine once the node's id is known.
	Engine func(nodeID string) *converge.Engine
	Facts  api.Facts
	// StatusFile is where the status is kept, see package status.
	StatusFile string
	// LockFile is held while the daemon runs.
	LockFile string
	// Notify tells the service manager, in the words of sd_notify(3).
	Notify func(state string)
	// Watchdog is how often the service manager wants to hear of us; 0 = never.
	Watchdog time.Duration
	// OnLink is given every new link to the controller.
	OnLink func(*link.Link)
	// OnApplied is given every document that the machine is converged to, after each
	// pass; may be nil.
	OnApplied func(*api.NodeConfig)
	// Heat is told once what became of the machine; nil where no stack waits for it.
	Heat *heatsignal.Signaller
	// Dial makes the connections to the controller; nil for the ordinary way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Daemon runs once.
type Daemon struct {
	Options
	files   enroll.Files
	board   *status.Board
	desired *desired
	link    atomic.Pointer[link.Link]
	resumed chan struct{} // the controller answers again
	asked   chan struct{} // closed when the controller was asked once, whatever came of it
	once    sync.Once     // closes asked
	pulse   pulse

	// Of the converging loop alone, once it runs.
	engine *converge.Engine
	kept   *api.NodeConfig // the last known good
}

// New prepares a daemon.
func New(o Options) *Daemon {
	if o.Metadata == nil {
		o.Metadata = metadata.This()
	}
	return &Daemon{
		Options: o, files: enroll.Files{Directory: o.State}, board: status.NewBoard(o.Facts, nil),
		desired: newDesired(), resumed: make(chan struct{}, 1), asked: make(chan struct{}),
	}
}

// Run returns when ctx is done and the action under way is finished. It sends
// READY once the state on disk is loaded: a node that is not converged yet is a
// node at work, not a service that failed to start.
func (d *Daemon) Run(ctx context.Context) error {
	loops := d.load(ctx)
	stop := context.AfterFunc(ctx, func() { d.Notify("STOPPING=1") })
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range append(loops, d.saving, d.watching, d.signalling) {
		group.Go(func() error { return loop(ctx) })
	}
	d.Notify("READY=1")
	err := group.Wait()
	d.stopped()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// load takes up the state on disk and decides what can be done with it. State of
// another machine: nothing, and the status says so. What is damaged is done without:
// the controller gives it again, or says what a person has to do.
func (d *Daemon) load(ctx context.Context) (loops []func(context.Context) error) {
	known, err := d.whose(ctx)
	if err != nil {
		d.problem(err)
		return nil
	}
	if known {
		d.restore()
	}
	return append(loops, d.converging, d.contact, d.reporting)
}

// problem puts up what only a person can mend.
func (d *Daemon) problem(err error) {
	d.Log.Error("stopped: only an operator can fix this", "error", err)
	d.board.Change(func(s *status.Status) { s.Problem = err.Error() })
}

// restore puts the last applied document in force.
func (d *Daemon) restore() {
	applied, err := d.State.Applied()
	if err != nil {
		// The controller gives it again. The file stays until then, for people to see.
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

// stopped leaves a last status behind.
func (d *Daemon) stopped() {
	d.board.Change(func(s *status.Status) {
		now := time.Now().UTC()
		s.StoppedAt, s.Controller.Connected, s.Node.Activity = &now, false, nil
	})
	if err := status.Save(d.StatusFile, d.board.Snapshot()); err != nil {
		d.Log.Warn("the last status is not saved", "error", err)
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
			d.Log.Warn("the status file is not up to date", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// signalling tells Heat, where Heat waits. It ends when Heat knows.
func (d *Daemon) signalling(ctx context.Context) error {
	if d.Heat == nil {
		return nil
	}
	return d.Heat.Run(ctx, d.board.Subscribe(), d.board.Snapshot)
}

// oneLine is text as a STATUS= line may have it.
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
