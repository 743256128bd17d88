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
	spoil := func(o *Operation, i *Instance) {
		o.Targets[0].Ready, o.Withheld[0].NodeID, o.Warnings[0].Message = false, "spoilt", "spoilt"
		*o.FinishedAt, o.Error.Detail, o.Error.InvalidParams[0].Message = time.Time{}, "spoilt", "spoilt"
		o.Request.VnfcInstanceIds[0], o.Request.Topology.StackID = "spoilt", "spoilt"
		o.Request.Topology.Servers[0].ID, o.Request.Topology.ConnectionPoints[0].Name, o.Request.Topology.Volumes[0].ID = "spoilt", "spoilt", "spoilt"
		i.NodeIDs[0], i.VolumeIDs[0], i.JoinTokenMAC[0] = "spoilt", "spoilt", 0
	}
	made := func() (Operation, Instance) {
		finished := time.Unix(1, 0).UTC()
		o := Operation{Operation: api.Operation{ID: "1", Targets: []api.OperationTarget{{NodeID: "n", Ready: true}}, Withheld: []api.Withheld{{NodeID: "n"}},
			Warnings: []api.Fault{{Message: "m"}}, FinishedAt: &finished, Error: &api.Problem{Detail: "d", InvalidParams: fault.List{{Message: "m"}}}},
			Request: api.OperationRequest{VnfcInstanceIds: []string{"v"}, Topology: &api.Topology{StackID: "s", Servers: []api.Server{{ID: "n"}},
				ConnectionPoints: []api.ConnectionPoint{{Name: "c"}}, Volumes: []api.TopologyVolume{{ID: "v"}}}}}
		return o, Instance{ID: "i", NodeIDs: []string{"n"}, VolumeIDs: []string{"v"}, JoinTokenMAC: []byte{1}}
	}
	want := func(when string, tx *Tx) {
		t.Helper()
		o, _, err := tx.Operations().Get(key)
		i, _, instanceErr := tx.Instances().Get("i")
		if err := errors.Join(err, instanceErr); err != nil {
			t.Fatal(err)
		}
		if wantO, wantI := made(); !Same(o, wantO) || !Same(i, wantI) {
			t.Fatalf("%s: %+v %+v", when, o, i)
		}
		spoil(&o, &i)
	}
	put := func(tx *Tx, o Operation, i Instance) error {
		return errors.Join(tx.Operations().Put(key, o), tx.Instances().Put("i", i))
	}
	update(t, s, func(tx *Tx) error {
		o, i := made()
		err := put(tx, o, i)
		spoil(&o, &i)
		want("after it was written", tx)
		return err
	})
	for range 2 {
		view(t, s, func(tx *Tx) error { want("read again", tx); return nil })
	}
	takenBack := errors.New("taken back")
	if err := s.Update(func(tx *Tx) error {
		o, i := made()
		spoil(&o, &i)
		return errors.Join(put(tx, o, i), takenBack)
	}); !errors.Is(err, takenBack) {
		t.Fatal(err)
	}
	for range 2 {
		view(t, s, func(tx *Tx) error { want("after a transaction that was rolled back", tx); return nil })
	}
}
