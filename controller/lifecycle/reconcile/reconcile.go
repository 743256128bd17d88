// Package reconcile brings the nodes and volumes of an instance in line with the desired state
// in force, and then asks package completion whether the operation in progress is over, in the
// same transaction. It is the only writer of documents: one pass from parameters, topology,
// carried-over plan state and what is known of nodes, volumes and files.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Reconciler reconciles instances. Its exported fields are set before use; its methods
// may be called at the same time.
type Reconciler struct {
	Runner     *tx.Runner
	Presence   *presence.Presence
	Identities Identities
	Permits    Permits
	Completion *completion.Evaluator
	Log        *slog.Logger

	unplanned unplanned

	mu sync.Mutex
	// failed are the instances that the last Reconcile could not reconcile.
	failed map[string]bool
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
	// Changed are the nodes whose document is another than before, new ones included, or
	// would be if their agent were not too old for it.
	Changed []string
}

// Reconcile reconciles an instance after a change that was made elsewhere, such as a
// volume that was adopted. Without a change it writes nothing. The empty id is that of
// volumes that no instance has; an instance that was deleted meanwhile is no error. What
// fails, as on a full disk, is tried again by Retry.
func (r *Reconciler) Reconcile(ctx context.Context, instanceID string) error {
	if instanceID == "" {
		return nil
	}
	err := r.again(instanceID, r.Runner.Update(ctx, instanceID, r.ReconcileAndFinish))
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.failed, instanceID)
	}
	return err
}

// again makes Retry reconcile the instance if err is an error. An instance that is gone is
// none.
func (r *Reconciler) again(instanceID string, err error) error {
	var problem *api.Problem
	if err == nil || errors.As(err, &problem) && problem.Type == api.ProblemNotFound {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = make(map[string]bool)
	}
	r.failed[instanceID] = true
	return err
}

// Retry reconciles the instances that could not be reconciled before. The change that
// called for it is on disk, and no other one may come.
func (r *Reconciler) Retry(ctx context.Context) error {
	r.mu.Lock()
	ids := slices.Sorted(maps.Keys(r.failed))
	r.mu.Unlock()
	var failed []error
	for _, id := range ids {
		if err := r.Reconcile(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("VNF instance %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// ReconcileAndFinish is a pass that no operation asked for. It then finishes the operation
// in progress, if that is done.
func (r *Reconciler) ReconcileAndFinish(t *tx.Tx) error {
	if _, err := r.ApplyUnlessOutdated(t); err != nil {
		return err
	}
	return r.Evaluate(t)
}

// Reported is ReconcileAndFinish after a node's report, with what it says of the cluster. The
// only inputs of the plan that a report changes are the observed state of the node and the hash
// of the cluster's CA. If these are unchanged, the documents stay as they are and only the
// node's own target is evaluated: the cost of a report does not grow with the number of nodes
// that are planned.
func (r *Reconciler) Reported(t *tx.Tx, before, after store.Node, said *api.ClusterFacts) error {
	replan, err := r.learnCluster(t, after, said)
	if err != nil {
		return err
	}
	if !replan && (!planReads(t, after) || r.observe(t, before) == r.observe(t, after)) {
		return r.evaluateNode(t, after)
	}
	// The report of one node may release what another one waits for: such a document is
	// changed on the operation's behalf.
	e, err := r.ApplyUnlessOutdated(t)
	if err != nil {
		return err
	}
	return r.Evaluate(t, e.Changed...)
}

// NodeChanged is ReconcileAndFinish after a change of a node's identity. A plan reads the
// identities of masters and storage servers; for other nodes only the target is evaluated.
func (r *Reconciler) NodeChanged(ctx context.Context, n store.Node) error {
	if Planned(n.Role) {
		return r.Reconcile(ctx, n.InstanceID)
	}
	return r.again(n.InstanceID, r.Runner.Update(ctx, n.InstanceID, func(t *tx.Tx) error {
		now, found, err := t.Nodes().Get(n.ID)
		if err != nil || !found || now.InstanceID != t.Instance.ID {
			return err
		}
		return r.evaluateNode(t, now)
	}))
}

// Evaluate finishes the operation in progress if it is over, and plans what is in force once a
// START is taken back. changed are the nodes whose documents were changed on its behalf.
func (r *Reconciler) Evaluate(t *tx.Tx, changed ...string) error {
	takenBack, err := r.Completion.Evaluate(t, changed)
	return r.planTakenBack(t, takenBack, err)
}

// evaluateNode is Evaluate if nothing but the report of this node has changed.
func (r *Reconciler) evaluateNode(t *tx.Tx, n store.Node) error {
	takenBack, err := r.Completion.EvaluateNode(t, n)
	return r.planTakenBack(t, takenBack, err)
}

func (r *Reconciler) planTakenBack(t *tx.Tx, takenBack bool, err error) error {
	if err == nil && takenBack {
		_, err = r.ApplyUnlessOutdated(t)
	}
	return err
}

// Planned reports whether each report of a node of the role may lead to another plan, because
// PersistentVolumes and the members of the cluster depend on it.
func Planned(role api.Role) bool { return role == api.RoleStorage || role == api.RoleMaster }

// planReads reports whether a report of the node may lead to another plan. Workers are many: only
// those that are upgraded now count.
func planReads(t *tx.Tx, n store.Node) bool {
	return Planned(n.Role) || slices.Contains(t.Instance.CarriedOver.Wave, n.ID)
}
