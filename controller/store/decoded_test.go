package store

import (
	"errors"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Records that are not decoded again are still copies: whatever is done to one
// that was read, or after it was written, the store has what was committed.
func TestRecordsAreCopiesWhetherDecodedOrNot(t *testing.T) {
	s := newPlace(t).open(t)
	key := OperationKey("i", 1)
	spoil := func(o *Operation, i *Instance, n *Node) {
		o.Targets[0].Ready, o.Withheld[0].NodeID, o.Warnings[0].Message = false, "spoilt", "spoilt"
		*o.FinishedAt, o.Error.Detail, o.Error.InvalidParams[0].Message = time.Time{}, "spoilt", "spoilt"
		o.Request.VnfcInstanceIds[0], o.Request.Topology.StackID = "spoilt", "spoilt"
		o.Request.Topology.Servers[0].ID, o.Request.Topology.ConnectionPoints[0].Name, o.Request.Topology.Volumes[0].ID = "spoilt", "spoilt", "spoilt"
		i.NodeIDs[0], i.VolumeIDs[0], i.JoinTokenMAC[0] = "spoilt", "spoilt", 0
		n.Addresses[0], n.Files[0], n.Conditions[0], n.Withheld[0].NodeID, n.Config[0] = "spoilt", "spoilt", "spoilt", "spoilt", 0
		*n.Identity.RevokedAt, n.Identity.Serial, n.Agent.Sections[0], n.Agent.Version, n.AgentOffer.Wave = time.Time{}, "spoilt", "spoilt", "spoilt", 0
		n.Status.Conditions[0].Reason, n.Status.BoundPersistentVolumes[0].Name, n.Status.ObservedGeneration = "spoilt", "spoilt", 0
		n.Status.Activity.Summary, n.Status.AgentUpgrade.Reason, n.Status.AgentUpgrade.Refused[0].Version = "spoilt", "spoilt", "spoilt"
	}
	made := func() (Operation, Instance, Node) {
		finished := time.Unix(1, 0).UTC()
		o := Operation{Operation: api.Operation{ID: "1", Targets: []api.OperationTarget{{NodeID: "n", Ready: true}}, Withheld: []api.Withheld{{NodeID: "n"}},
			Warnings: []api.Fault{{Message: "m"}}, FinishedAt: &finished, Error: &api.Problem{Detail: "d", InvalidParams: fault.List{{Message: "m"}}}},
			Request: api.OperationRequest{VnfcInstanceIds: []string{"v"}, Topology: &api.Topology{StackID: "s", Servers: []api.Server{{ID: "n"}},
				ConnectionPoints: []api.ConnectionPoint{{Name: "c"}}, Volumes: []api.TopologyVolume{{ID: "v"}}}}}
		n := Node{ID: "n", Addresses: []string{"a"}, Files: []string{"f"}, Conditions: []string{"c"}, Withheld: []api.Withheld{{NodeID: "n"}}, Config: Sealed{1},
			Identity: &Identity{Serial: "s"}, Agent: &api.Agent{Version: "v", Sections: []string{"s"}}, AgentOffer: &AgentOffer{Wave: 1},
			Status: &api.NodeStatus{ObservedGeneration: 1, Conditions: []api.Condition{{Reason: "r"}}, BoundPersistentVolumes: []api.BoundPersistentVolume{{Name: "p"}},
				Activity: &api.Activity{Summary: "s"}, AgentUpgrade: &api.AgentUpgrade{Reason: "r", Refused: []api.RefusedAgent{{Version: "v"}}}}}
		revoked := finished
		n.Identity.RevokedAt = &revoked
		return o, Instance{ID: "i", NodeIDs: []string{"n"}, VolumeIDs: []string{"v"}, JoinTokenMAC: []byte{1}}, n
	}
	want := func(when string, tx *Tx) {
		t.Helper()
		o, _, err := tx.Operations().Get(key)
		i, _, instanceErr := tx.Instances().Get("i")
		n, _, nodeErr := tx.Nodes().Get("n")
		if err := errors.Join(err, instanceErr, nodeErr); err != nil {
			t.Fatal(err)
		}
		if wantO, wantI, wantN := made(); !Same(o, wantO) || !Same(i, wantI) || !Same(n, wantN) {
			t.Fatalf("%s: %+v %+v %+v", when, o, i, n)
		}
		spoil(&o, &i, &n)
	}
	put := func(tx *Tx, o Operation, i Instance, n Node) error {
		return errors.Join(tx.Operations().Put(key, o), tx.Instances().Put("i", i), tx.Nodes().Put("n", n))
	}
	update(t, s, func(tx *Tx) error {
		o, i, n := made()
		err := put(tx, o, i, n)
		spoil(&o, &i, &n)
		want("after it was written", tx)
		return err
	})
	for range 2 {
		view(t, s, func(tx *Tx) error { want("read again", tx); return nil })
	}
	takenBack := errors.New("taken back")
	if err := s.Update(func(tx *Tx) error {
		o, i, n := made()
		spoil(&o, &i, &n)
		return errors.Join(put(tx, o, i, n), takenBack)
	}); !errors.Is(err, takenBack) {
		t.Fatal(err)
	}
	for range 2 {
		view(t, s, func(tx *Tx) error { want("after a transaction that was rolled back", tx); return nil })
	}
}
