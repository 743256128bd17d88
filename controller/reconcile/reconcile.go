// Package reconcile brings the nodes and volumes of an instance, and the operation in
// progress on it, in line with the desired state in force. It is the only writer of
// documents: one pass from parameters, topology, carried-over plan state and what is
// known of nodes, volumes and files.
package reconcile

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/presence"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Reconciler reconciles instances. Its exported fields are set before use; its methods
// may be called at the same time.
type Reconciler struct {
	Runner     *tx.Runner
	Presence   *presence.Presence
	Identities Identities
	Permits    Permits
	Log        *slog.Logger

	unplanned unplanned
}

// Identities are the identities of nodes.
type Identities interface {
	// RevokeTx makes a node's identity void; a node without one is no error.
	RevokeTx(tx *store.Tx, nodeID, why string) error
}

// Permits are the permits to format volumes.
type Permits interface {
	// NodeGone interrupts what the node has begun and not reported as done.
	NodeGone(tx *store.Tx, nodeID string) error
}

// Effect is what a pass did.
type Effect struct {
	Plan plan.Output
	// Changed are the nodes whose document is another than before, new ones included.
	Changed []string
}

// Reconcile reconciles an instance after a change that was made elsewhere, such as a
// volume that was adopted. Without a change it writes nothing. The empty id is that of
// volumes that no instance has; an instance that was deleted meanwhile is no error.
func (r *Reconciler) Reconcile(ctx context.Context, instanceID string) error {
	if instanceID == "" {
		return nil
	}
	err := r.Runner.Update(ctx, instanceID, r.Settle)
	var problem *api.Problem
	if errors.As(err, &problem) && problem.Type == api.ProblemNotFound {
		return nil
	}
	return err
}

// Settle is a pass that no operation asked for, and then a look whether the operation in
// progress is done.
func (r *Reconciler) Settle(t *tx.Tx) error {
	if _, err := r.Follow(t); err != nil {
		return err
	}
	return r.Evaluate(t, nil)
}
