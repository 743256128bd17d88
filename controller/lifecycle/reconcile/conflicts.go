package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// InProgress is the problem that names the operation in progress.
func InProgress(t *tx.Tx) error {
	op, err := t.Operation(t.Instance.ProcessingSequence)
	if err != nil {
		return err
	}
	return api.NewProblem(api.ProblemOperationInProgress, fmt.Sprintf(
		"operation %s (%s), since %s, until %s at the latest",
		op.ID, op.Request.Describe(), stamp(op.StartedAt), stamp(op.Deadline))).With(inTheWay(op)...)
}

// inTheWay are the ways to the end of an operation in progress. It is no TERMINATE, which is over
// at once and cannot be cancelled.
func inTheWay(op store.Operation) []api.Action {
	return []api.Action{{Call: api.CallGetOperation, ID: op.ID}, {Call: api.CallCancelOperation, ID: op.ID}}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// KeepsTargets refuses a plan that takes a server away that the operation in progress waits
// for: it would be done without it. A START also needs the servers whose Nodes leave the
// cluster, and the storage server with its addresses: without them, its PersistentVolumes could
// not be told from others.
func (r *Reconciler) KeepsTargets(t *tx.Tx, out plan.Output) error {
	if t.Instance.ProcessingSequence == 0 {
		return nil
	}
	op, err := t.Operation(t.Instance.ProcessingSequence)
	if err != nil {
		return err
	}
	waitsFor := op.Targets
	if op.Phase == api.PhaseStart {
		needed, err := neededByStart(t, op)
		if err != nil {
			return err
		}
		waitsFor = slices.Concat(waitsFor, needed)
	}
	for _, target := range waitsFor {
		if slices.ContainsFunc(out.Nodes, func(n plan.Node) bool { return n.ID == target.NodeID }) {
			continue
		}
		return api.NewProblem(api.ProblemOperationInProgress, fmt.Sprintf(
			"operation %s (%s) waits, until %s at the latest, for the server %s (%s), which this request would leave without a role",
			op.ID, op.Request.Describe(), stamp(op.Deadline), target.Name, target.NodeID)).With(inTheWay(op)...)
	}
	return r.keepsStorageAddresses(t, op, out)
}

// keepsStorageAddresses refuses a plan without an address of the storage server whose
// PersistentVolumes the operation in progress withdraws.
func (r *Reconciler) keepsStorageAddresses(t *tx.Tx, op store.Operation, out plan.Output) error {
	now, err := desired.InForce(t)
	if err != nil || op.Phase != api.PhaseStart || !now.WithdrawPersistentVolumes || now.Params == nil {
		return err
	}
	before, _, err := r.Plan(t, now)
	if err != nil {
		return err
	}
	for _, address := range before.StorageAddresses {
		if !slices.Contains(out.StorageAddresses, address) {
			return api.NewProblem(api.ProblemOperationInProgress, fmt.Sprintf(
				"operation %s (%s) withdraws, until %s at the latest, the PersistentVolumes of the storage server at %s; with this request its addresses would be %s",
				op.ID, op.Request.Describe(), stamp(op.Deadline), address, cmp.Or(strings.Join(out.StorageAddresses, ", "), "unknown"))).With(inTheWay(op)...)
		}
	}
	return nil
}

// neededByStart are the storage server in force and the members that the START has leave, as
// targets.
func neededByStart(t *tx.Tx, start store.Operation) (list []api.OperationTarget, err error) {
	leaves := func(n store.Node) bool {
		return slices.ContainsFunc(start.Leaving, func(m api.LeavingMember) bool { return m.NodeID == n.ID })
	}
	nodes, err := t.InstanceNodes()
	for _, n := range nodes {
		if n.Expected && (n.Role == api.RoleStorage || leaves(n)) {
			list = append(list, api.OperationTarget{NodeID: n.ID, Name: n.Name})
		}
	}
	return list, err
}

// ForeignServers are the servers of a topology that another instance's topology has.
func ForeignServers(t *tx.Tx, topology *api.Topology) (fault.List, error) {
	var faults fault.List
	if topology == nil {
		return nil, nil
	}
	for i, server := range topology.Servers {
		n, found, err := t.Nodes().Get(server.ID)
		if err != nil {
			return nil, err
		}
		if found && n.InstanceID != t.Instance.ID && n.Expected {
			other, _, err := t.Instances().Get(n.InstanceID)
			if err != nil {
				return nil, err
			}
			faults = append(faults, desired.AtTopology.Key("servers").Index(i).Key("id").Fault(fmt.Sprintf(
				"server %s belongs to %s; a server is in one instance", server.ID, other.Title())))
		}
	}
	return faults, nil
}
