package operation

import (
	"cmp"
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// state takes the statement that the old storage server is off for the END in progress that waits for
// that server, so that the one who posted that END gets what it waits for. taken is false if the request
// is to begin an operation. One with an idempotency key is: a program's retry says again what was said of
// an earlier server.
func (s *Service) state(ctx context.Context, instanceID string, r api.OperationRequest) (op store.Operation, taken bool, err error) {
	if !r.OldServerIsOff || r.Phase != api.PhaseEnd || r.IdempotencyKey != "" {
		return op, false, nil
	}
	err = s.Runner.Update(ctx, instanceID, func(t *tx.Tx) (err error) {
		op, taken, err = s.stateOff(ctx, t, r)
		return err
	})
	return op, taken, err
}

// stateOff lets the new storage server mount if the END in progress is the HEAL that brought it and the
// statement names it. A repeated statement changes nothing and is taken again.
func (s *Service) stateOff(ctx context.Context, t *tx.Tx, r api.OperationRequest) (op store.Operation, taken bool, err error) {
	if t.Instance.ProcessingSequence == 0 {
		return op, false, nil
	}
	if op, err = t.Operation(t.Instance.ProcessingSequence); err != nil {
		return op, false, err
	}
	d, err := desired.InForce(t)
	if err != nil || d.Params == nil {
		return op, false, err
	}
	server, old := storageServerOf(d.Params, d.Topology), t.Instance.CarriedOver.VolumeServer
	waits := old != "" && old != server
	switch {
	case op.Operation.Operation != api.Heal || op.Phase != api.PhaseEnd || cmp.Or(r.PersistentVolumes, op.PersistentVolumes) != op.PersistentVolumes:
		return op, false, nil
	case !slices.ContainsFunc(op.Targets, func(t api.OperationTarget) bool { return t.NodeID == server }):
		return op, false, nil
	case !slices.ContainsFunc(r.VnfcInstanceIds, func(name string) bool { // the new one: what was meant of an old one may have come late
		return slices.ContainsFunc(topology.Named(d.Topology.Servers, name), func(s api.Server) bool { return s.ID == server })
	}):
		return op, false, nil
	case waits == (op.OldServerIsOffBy != ""): // nobody has to state it, or it was stated of another server
		return op, false, nil
	}
	if err := t.RequireConfirmed(); err != nil {
		return op, false, err
	}
	if waits {
		op.OldServerIsOffBy, op.OldServerOff = cmp.Or(event.Caller(ctx), "the controller"), old
		if err := t.SaveOperation(op); err != nil {
			return op, false, err
		}
		liftFence(t, d.Params, server)
		if err := s.Reconciler.ReconcileAndFinish(t); err != nil {
			return op, false, err
		}
		if op, err = t.Operation(op.Sequence); err != nil {
			return op, false, err
		}
	}
	op.Joined, op.VnfInstanceName = true, t.Instance.Name
	return op, true, nil
}

// liftFence lets this storage server mount. It is the one that may write from now on, if anything is kept.
func liftFence(t *tx.Tx, p *params.Params, server string) {
	c := &t.Instance.CarriedOver
	if c.VolumeServer, c.VolumeServerShown = "", ""; p.Cluster.StorageServer != nil && p.Cluster.StorageServer.KeepVolumes {
		c.VolumeServer = server
	}
}

// storageServerOf is the storage server of a topology, "" for none.
func storageServerOf(p *params.Params, in *api.Topology) string {
	servers := topology.Assign(p, in, fault.Root).Servers(api.RoleStorage)
	if len(servers) == 0 {
		return ""
	}
	return servers[0]
}
