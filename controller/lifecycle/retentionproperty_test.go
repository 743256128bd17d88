package lifecycle_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// checkForgotten wants that an operation which is gone was over, that enough newer ones
// came, that its key is good no more, and that a client that asks for it is told.
func (h *history) checkForgotten(t *rapid.T, op api.Operation) {
	newer, key := 0, op.IdempotencyKey
	for _, known := range []map[string]api.Operation{h.operations, h.forgotten} {
		for id, other := range known {
			if lifecycletest.SequenceOf(id) <= op.Sequence {
				continue
			}
			newer++
			if other.IdempotencyKey == key {
				key = "" // it means that one
			}
		}
	}
	switch {
	case op.FinishedAt == nil:
		t.Fatalf("operation %s is lost while it is in progress: %+v", op.ID, op)
	case newer < h.Retention.Last:
		t.Fatalf("operation %s is lost, and only %d are newer, where %d are kept: %+v", op.ID, newer, h.Retention.Last, op)
	case key != "" && h.Clock.Now().Before(op.FinishedAt.Add(h.Retention.Key)):
		t.Fatalf("operation %s is lost at %v, and its key is good for %v: %+v", op.ID, h.Clock.Now(), h.Retention.Key, op)
	}
	_, err := h.Lifecycle.Operations.GetOperation(h.Ctx, lifecycletest.InstanceID, op.Sequence)
	h.WantRefused(err, api.ProblemNotFound, "operation "+op.ID, "no longer on record")
	delete(h.operations, op.ID)
	h.forgotten[op.ID] = op
}

// inUseAtMost is how many operations may be in use at a time, in addition to the STARTs that
// name leaving servers: the newest START and END of each of eight kinds, two ENDs, one that is
// awaited.
const inUseAtMost = 19

// checkRetention fails if more of the past is kept than the retention says.
func (h *history) checkRetention(t *rapid.T, now map[string]api.Operation) {
	most, keys := h.Retention.Last+inUseAtMost, map[string]bool{"": true}
	for id, op := range now {
		if !keys[op.IdempotencyKey] {
			keys[op.IdempotencyKey] = true
			most++
		}
		if op.Phase == api.PhaseStart && len(h.named[id]) > 0 {
			most++
		}
	}
	if len(now) > most {
		t.Fatalf("%d operations are on record, %d would do: %v", len(now), most, slices.Sorted(maps.Keys(now)))
	}
	var versions []store.Desired
	inForce, referred := int64(0), map[int64]bool{}
	h.Must(h.Store.View(func(tx *store.Tx) error {
		i, _, err := tx.Instances().Get(lifecycletest.InstanceID)
		h.Must(err)
		inForce = i.DesiredVersion
		operations, err := tx.Operations().All()
		h.Must(err)
		for _, o := range operations {
			referred[o.CreatedVersion], referred[o.PreviousVersion], referred[o.BaseVersion] = true, true, true
		}
		versions, err = tx.Desired().All()
		return err
	}))
	for _, d := range versions[:max(0, len(versions)-h.Retention.Last)] {
		if d.Version != inForce && !referred[d.Version] {
			t.Fatalf("version %d of %d on record is in use by no operation, and %d are kept", d.Version, len(versions), h.Retention.Last)
		}
	}
}
