// Package lifecycle is the life cycle management of VNF instances: it puts its parts together
// and does what no request triggers. Every change is one transaction that puts a version
// of the desired state in force, plans, writes each node's document and evaluates the
// operation in progress; so nothing can be half changed, and a restart finds what it
// needs in the store. It never talks to a node: nodes pull.
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/discovery"
	"github.com/nodehitch/nodehitch/controller/lifecycle/instance"
	"github.com/nodehitch/nodehitch/controller/lifecycle/node"
	"github.com/nodehitch/nodehitch/controller/lifecycle/operation"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options are what life cycle management needs. All are required.
type Options struct {
	Store *store.Store
	Hub   *notify.Hub
	// Blobs has the content of package files.
	Blobs packagefile.Blobs
	// Enrollment has the identities of nodes and the join tokens, Permits the permits to
	// format volumes.
	Enrollment interface {
		instance.JoinTokens
		reconcile.Identities
	}
	Permits reconcile.Permits
	// Source is where topologies come from.
	Source stack.Source
	Now    func() time.Time
	Log    *slog.Logger
	// OwnNames are the names of the controller.
	OwnNames []string
	Presence *presence.Presence
	// Wanted is the agent that a node is told to become, nil for none.
	Wanted func(n store.Node, agent api.Agent) (*api.WantedAgent, error)
	// FailureGrace is for how long nothing changes before an END fails whose targets no
	// waiting makes ready.
	FailureGrace time.Duration
}

// Manager is life cycle management, by its parts.
type Manager struct {
	Instances  *instance.Service
	Operations *operation.Service
	Nodes      *node.Service
	Discovery  *discovery.Service
	Reconciler *reconcile.Reconciler

	log *slog.Logger
}

// New puts the parts together. Nothing runs yet.
func New(o Options) *Manager {
	runner := &tx.Runner{Store: o.Store, Hub: o.Hub, Now: o.Now, Keep: tx.Kept}
	observer := &stack.Observer{Source: o.Source, Hub: o.Hub, Now: o.Now}
	validator := &packagefile.Validator{Blobs: o.Blobs, Now: o.Now}
	evaluator := &completion.Evaluator{Presence: o.Presence, Log: o.Log, FailureGrace: o.FailureGrace, UpSince: o.Now()}
	reconciler := &reconcile.Reconciler{Runner: runner, Presence: o.Presence, Identities: o.Enrollment, Permits: o.Permits, Completion: evaluator, Log: o.Log}
	found := &discovery.Service{Runner: runner, Observer: observer, Reconciler: reconciler, Now: o.Now, Log: o.Log}
	return &Manager{
		Instances: &instance.Service{Runner: runner, Observer: observer, Reconciler: reconciler, Files: validator,
			Presence: o.Presence, JoinTokens: o.Enrollment, OwnNames: o.OwnNames, Log: o.Log, Accepted: found.Reset},
		Operations: &operation.Service{Runner: runner, Observer: observer, Reconciler: reconciler, Completion: evaluator, Files: validator, Accepted: found.Reset},
		Nodes:      &node.Service{Runner: runner, Reconciler: reconciler, Presence: o.Presence, Log: o.Log, Wanted: o.Wanted, SizeDiffers: found.SizeDiffers, Silent: found.Silent},
		Discovery:  found,
		Reconciler: reconciler,
		log:        o.Log,
	}
}

// sweepEvery is how late a deadline can be noticed.
const sweepEvery = time.Second

// Run does what no request triggers, until ctx ends: it takes up what a restart or
// a restore has left (a new epoch is in every document), fails operations at their
// deadline, takes back a START whose END did not come, notices lost nodes, reconciles
// again after a failure, learns the sizes of volumes that were extended, retires servers
// that have left their stacks, and lets a storage server mount once the one before is gone.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.Start(ctx); err != nil {
		return err
	}
	var observing sync.WaitGroup
	defer observing.Wait()
	// A cloud may be slow, and deadlines do not wait for it.
	observing.Go(func() {
		everySecond(ctx, func() {
			if err := m.Discovery.LearnSizes(ctx); err != nil && ctx.Err() == nil {
				m.log.Error("the sizes of volumes cannot be learned", "error", err)
			}
			if err := m.Discovery.RetireGone(ctx); err != nil && ctx.Err() == nil {
				m.log.Error("servers that have left their stacks cannot be retired", "error", err)
			}
		})
	})
	observing.Go(func() { // Pods wait for it, and it for no stack
		everySecond(ctx, func() {
			if err := m.Discovery.CheckFences(ctx); err != nil && ctx.Err() == nil {
				m.log.Error("old storage servers cannot be looked for", "error", err)
			}
		})
	})
	everySecond(ctx, func() {
		if err := m.Sweep(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("due operations cannot be finished", "error", err)
		}
	})
	return nil
}

// everySecond does it until ctx ends.
func everySecond(ctx context.Context, do func()) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		do()
	}
}

// Start takes up what was left.
func (m *Manager) Start(ctx context.Context) error {
	if err := m.Nodes.Start(); err != nil {
		return err
	}
	return m.Instances.TakeUp(ctx)
}

// Sweep does once what Run does every second.
func (m *Manager) Sweep(ctx context.Context) error {
	return errors.Join(m.Nodes.Sweep(ctx), m.Operations.Sweep(ctx), m.Reconciler.Retry(ctx))
}
