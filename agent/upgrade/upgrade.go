// Package upgrade decides which build of the agent runs on this machine.
//
// The running build (Upgrader) downloads the one that the controller wants, verifies it,
// and between two passes puts it in its own place. The new build is on probation until a
// poll was answered and a pass has reached what was reached before. Until then the previous
// build (Guard), which the unit runs before each start, may take it back.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// Probation is how long a new build may take until it is healthy.
const Probation = 5 * time.Minute

var (
	// ErrSwitched ends the process: another build is in its place, and the service manager
	// starts it.
	ErrSwitched = errors.New("another build is in the place of this one")
	// ErrRolledBack ends the process: the previous build has decided to take this one back,
	// and does so before the next start.
	ErrRolledBack = errors.New("this build is rolled back")
	// ErrNotHealthy ends the process: this build was not healthy in its time.
	ErrNotHealthy = errors.New("this build has not become healthy in its time")
	// ErrOnProbation is why the identity is not changed.
	ErrOnProbation = errors.New("a new build of the agent is on probation, and changes no identity until it is healthy")
)

// Options of an Upgrader.
type Options struct {
	// Binary is the file of this process.
	Binary string
	// Guard is the build that the unit runs before each start; "" if it runs none.
	Guard string
	// Disabled is `upgrade: none` of agent.yaml.
	Disabled bool
	// ConfigFile is what a new build has to be able to read.
	ConfigFile string
	State      *state.Directory
	// Probation of the next build.
	Probation time.Duration
	// Waits says why this moment is none for a switch, "" if it is one.
	Waits func() (string, error)
	// Install brings along what belongs to a healthy build besides its binary, the unit; nil
	// if there is none.
	Install func(context.Context) error
	Log     *slog.Logger
}

// Upgrader is the running build's side of an upgrade. It is safe for concurrent use.
type Upgrader struct {
	Options
	managedBy api.AgentUpgradeManagedBy
	store     *files.Store
	report    func(api.AgentUpgrade)
	wake      func() // makes the converging loop pass once more
	changed   chan struct{}
	healthy   chan struct{}

	mu        sync.Mutex
	own       Build
	record    Record
	probation bool // this is the new build of the record
	told      bool // the controller has said which build it wants
	polled    bool
	last      *pass
	wanted    *api.WantedAgent
	stop      context.CancelFunc // of the preparation of another build than wanted
	ready     string             // SHA-256 of the build that is verified
	shown     api.AgentUpgrade
}

// pass is a complete one.
type pass struct {
	doc        *api.NodeConfig
	conditions []api.Condition
}

// New is an Upgrader that has read nothing yet.
func New(o Options) *Upgrader {
	u := &Upgrader{
		Options: o, managedBy: managedBy(o), store: files.Agents(downloads(o.Binary), o.Log),
		report: func(api.AgentUpgrade) {}, wake: func() {},
		changed: make(chan struct{}, 1), healthy: make(chan struct{}, 1),
	}
	u.own.Version = version.Version
	if u.Install == nil {
		u.Install = func(context.Context) error { return nil }
	}
	return u
}

// managedBy says who replaces the binary: packages put theirs into /usr/bin, and the agent
// itself never does.
func managedBy(o Options) api.AgentUpgradeManagedBy {
	switch {
	case strings.HasPrefix(o.Binary, "/usr/bin/"):
		return api.ManagedByPackage
	case o.Disabled:
		return api.ManagedByNone
	}
	return api.ManagedByController
}

// Open reads the record. report is called with each state of the upgrade, and wake when a
// pass should end soon, so that Switch is called. ErrRolledBack if this build must not run.
func (u *Upgrader) Open(report func(api.AgentUpgrade), wake func()) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.report, u.wake = report, wake
	var damaged *state.Damaged
	r, err := load(u.State)
	if errors.As(err, &damaged) {
		u.Log.Error("the record of an upgrade is damaged; it is dropped, and with it which builds are refused", "error", err)
		return u.forget(Record{})
	}
	if err != nil {
		return err
	}
	u.record = r
	if r.To.SHA256 == "" {
		return nil
	}
	if err := u.identify(); err != nil {
		return err
	}
	switch {
	case u.own.SHA256 == r.To.SHA256 && r.Outcome != "":
		return fmt.Errorf("%w: %s", ErrRolledBack, r.Message)
	case u.own.SHA256 == r.To.SHA256:
		u.probation = true
		u.show(api.UpgradeProbation, r.To.Version, "it has to be healthy by "+r.Deadline.Format(time.RFC3339))
		return nil
	case u.own.SHA256 == r.From.SHA256 && r.Outcome != "":
		u.show(r.Outcome, r.To.Version, r.Message)
		u.tidy()
		return dropIdentity(u.State)
	}
	return u.forget(r) // the rename did not happen, or an operator has put another build here
}

// forget ends an upgrade.
func (u *Upgrader) forget(r Record) error {
	u.record = Record{Refused: r.Refused}
	u.tidy()
	return forget(u.State, r)
}

// identify computes which build this is, once.
func (u *Upgrader) identify() (err error) {
	if u.own.SHA256 == "" {
		u.own.SHA256, err = digestOf("/proc/self/exe")
	}
	return err
}

// OnProbation reports whether this build has not proven itself yet. Until then what it keeps
// must stay readable for the previous one, and the identity must stay as it is.
func (u *Upgrader) OnProbation() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.probation
}

// Use sets the link over which builds are downloaded.
func (u *Upgrader) Use(l *link.Link) { u.store.Use(l) }

// Want records which build the controller wants; nil for none.
func (u *Upgrader) Want(w *api.WantedAgent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told && same(w, u.wanted) {
		return
	}
	u.told, u.wanted, u.ready = true, w, ""
	if u.stop != nil {
		u.stop()
	}
	u.poke()
}

func same(a, b *api.WantedAgent) bool { return a == b || a != nil && b != nil && *a == *b }

// Polled records a poll whose answer this build understands.
func (u *Upgrader) Polled() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.polled = true
	u.checkHealth()
}

// Passed records a complete pass.
func (u *Upgrader) Passed(doc *api.NodeConfig, conditions []api.Condition) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = &pass{doc, conditions}
	u.checkHealth()
}

// checkHealth decides whether this build is healthy.
func (u *Upgrader) checkHealth() {
	if !u.probation || !u.polled || u.last == nil {
		return
	}
	lost, err := worse(u.record.Before, u.last.doc, u.last.conditions)
	switch {
	case err != nil:
		u.Log.Error("what the new build has reached cannot be compared", "error", err)
	case lost != "":
		u.show(api.UpgradeProbation, u.record.To.Version, "not healthy yet: "+lost)
	default:
		select {
		case u.healthy <- struct{}{}:
		default:
		}
	}
}

// poke makes Run look again.
func (u *Upgrader) poke() {
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// show reports a state of the upgrade, and logs it if it is another one.
func (u *Upgrader) show(reason, version, message string) {
	s := api.AgentUpgrade{ManagedBy: u.managedBy, Reason: reason, Version: version, Message: message}
	for _, r := range u.record.Refused {
		s.Refused = append(s.Refused, api.RefusedAgent{Version: r.Version, Sha256: r.SHA256, At: r.At})
	}
	if reflect.DeepEqual(s, u.shown) {
		return
	}
	u.shown = s
	u.Log.Info("upgrade", "event", api.EventAgentUpgrade, "reason", reason, "version", version, "message", message)
	u.report(s)
}

// Stopped records that this process ends because it was asked to. It is then no failed
// start.
func (u *Upgrader) Stopped() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.probation || u.record.Starts == 0 {
		return nil
	}
	u.record.Starts--
	return save(u.State, u.record)
}
