package discovery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// leaving are the servers that STARTs of this kind have named since the last END, each with
// the operation that named it. others are topologies to find them in besides those that the
// STARTs saw.
func leaving(t *tx.Tx, kind func(store.Operation) bool, others ...*api.Topology) (map[string]string, error) {
	history, err := t.History()
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, o := range history {
		if o.Phase == api.PhaseEnd && !o.StackFailed() {
			break
		}
		if o.Phase != api.PhaseStart || o.State == api.Failed || !kind(o) {
			continue
		}
		saw := slices.Clone(others)
		for _, version := range []int64{o.PreviousVersion, o.CreatedVersion} {
			at, err := desired.TopologyAt(t, version)
			if err != nil {
				return nil, err
			}
			saw = append(saw, at)
		}
		var servers []api.Server
		for _, each := range saw {
			servers = append(servers, serversOf(each)...)
		}
		for _, name := range o.Request.VnfcInstanceIds {
			for _, s := range topology.Named(servers, name) {
				ids[s.ID] = o.ID
			}
		}
	}
	return ids, nil
}

// Silent notes that a server of the instance is silent. RetireGone observes the stack if it is
// to leave.
func (s *Service) Silent(instanceID string) { s.silent.note(instanceID) }

// RetireGone observes the stacks of the instances for which that is due, and retires the
// servers that a SCALE_IN START has named as leaving, that are silent, and that their complete
// stack no longer has: Tacker's v1 API calls no END that would. An observation that finds one
// still there, or the stack in progress, is repeated.
func (s *Service) RetireGone(ctx context.Context) error {
	return s.silent.run(ctx, s.Now, longestPause, oneByOne, s.retireGone)
}

func (s *Service) retireGone(ctx context.Context, instanceID string) (done bool, err error) {
	var silent map[string]string
	err = s.observe(ctx, instanceID, func(t *tx.Tx) (err error) {
		if err := mayAdd(t); err != nil {
			return err
		}
		if silent, err = s.leavingSilently(t); err != nil {
			return err
		}
		if done = len(silent) == 0; done {
			return notAdded("no server of VNF instance %s is silent that a SCALE_IN START has named", instanceID)
		}
		return nil
	}, func(t *tx.Tx, o *stack.Observation) error {
		gone := maps.Clone(silent)
		for _, server := range o.Found.Servers {
			delete(gone, server.ID)
		}
		retired, err := s.retire(t, o, gone)
		done = retired && len(gone) == len(silent)
		return err
	})
	return done, err
}

// leavingSilently are the servers that a SCALE_IN START has named since the last END, that are
// silent, and that were not retired, each with the operation that named it.
func (s *Service) leavingSilently(t *tx.Tx) (map[string]string, error) {
	d, err := desired.Record(t)
	if err != nil {
		return nil, err
	}
	ids, err := leaving(t, func(o store.Operation) bool { return o.Request.Type == api.ScaleIn }, d.Topology)
	if err != nil {
		return nil, err
	}
	for id := range ids {
		n, found, err := t.Nodes().Get(id)
		if err != nil {
			return nil, err
		}
		if !found || n.InstanceID != t.Instance.ID || s.Reconciler.Presence.Heard(n) || !n.Expected && !n.Identity.Live() {
			delete(ids, id)
		}
	}
	return ids, nil
}

// retire does for these servers what the END would: it takes them out of the topology in force,
// as a version of its own, and revokes their identities. It reports whether it could.
func (s *Service) retire(t *tx.Tx, o *stack.Observation, gone map[string]string) (bool, error) {
	before, err := desired.InForce(t)
	if err != nil {
		return false, err
	}
	complete := strings.HasSuffix(o.Found.StackStatus, "_COMPLETE") && !strings.HasPrefix(o.Found.StackStatus, "ROLLBACK_")
	if len(gone) == 0 || !complete || replaced(before.Desired, o) {
		return false, nil
	}
	if err := before.Valid(); err != nil {
		return false, err
	}
	next := before.Desired
	next.Topology = without(before.Topology, gone)
	next.Leaving = slices.DeleteFunc(slices.Clone(next.Leaving), func(id string) bool { return gone[id] != "" })
	next.Force = next.Force && len(next.Leaving) > 0
	out, _, err := s.Reconciler.Plan(t, &desired.State{Desired: next, Parameters: before.Parameters})
	if err != nil {
		return false, err
	}
	if err := api.Invalid(out.Faults); err != nil {
		return false, err
	}
	if err := s.Reconciler.KeepsTargets(t, out); err != nil {
		return false, err
	}
	if _, err := desired.Activate(t, next, ""); err != nil {
		return false, err
	}
	if _, err := s.Reconciler.Apply(t); err != nil {
		return false, err
	}
	for id, operation := range gone {
		if err := s.Reconciler.RetireNode(t, id, fmt.Sprintf("operation %s named it as leaving, and its stack no longer has it", operation)); err != nil {
			return false, err
		}
	}
	servers := slices.Sorted(maps.Keys(gone))
	t.OnCommit(func() {
		s.Log.Info("servers that the stack no longer has were retired without an END", "instance", t.Instance.ID, "servers", servers)
	})
	// The state of their formats is in the documents of those that have the volumes now.
	return true, s.Reconciler.ReconcileAndFinish(t)
}

// without is the topology without these servers.
func without(t *api.Topology, gone map[string]string) *api.Topology {
	if t == nil {
		return nil
	}
	next := *t
	next.Servers = slices.DeleteFunc(slices.Clone(t.Servers), func(s api.Server) bool { return gone[s.ID] != "" })
	return &next
}
