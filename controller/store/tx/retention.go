package tx

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Retention is how much of an instance's past is kept beside what is in use.
type Retention struct {
	// Last is how many of the newest operations, and how many of the newest versions of
	// the desired state, are kept.
	Last int
	// Key is how long after its end an operation is kept for its idempotency key.
	Key time.Duration
}

// Kept is the retention of every controller. A request lasts a day at most, so no client
// repeats one after a week by accident.
var Kept = Retention{Last: 20, Key: 7 * 24 * time.Hour}

// String says which operations are kept, for a client that asks for another one.
func (keep Retention) String() string {
	return fmt.Sprintf("its last %d are kept, each with an idempotencyKey until %d days after its end, and what a later one depends on",
		keep.Last, keep.Key/(24*time.Hour))
}

// retain deletes what is not kept any more, once a change has made an operation or a
// version. Whatever an older controller has left goes with the first of them.
func (t *Tx) retain(keep Retention) error {
	if t.Instance.LastSequence == t.before.LastSequence && t.Instance.LastVersion == t.before.LastVersion {
		return nil
	}
	history, err := t.History()
	if err != nil {
		return err
	}
	operations, versions := keep.of(t.Instance, history, t.Now)
	for _, o := range history {
		if !operations[o.Sequence] {
			t.Changed(notify.Operations)
			err = cmp.Or(err, t.Operations().Delete(store.OperationKey(t.Instance.ID, o.Sequence)))
		}
	}
	keys, listErr := t.Desired().Keys(store.InstancePrefix(t.Instance.ID))
	err = cmp.Or(err, listErr)
	for _, key := range keys[:max(0, len(keys)-keep.Last)] {
		if !versions[key] {
			err = cmp.Or(err, t.Desired().Delete(key))
		}
	}
	return err
}

// of is the operations that are kept, and the keys of the versions that are in use.
// history is all operations, newest first.
func (keep Retention) of(i store.Instance, history []store.Operation, now time.Time) (operations map[int64]bool, versions map[string]bool) {
	operations, versions = inUse(i, history), map[string]bool{store.DesiredKey(i.ID, i.DesiredVersion): true}
	for _, o := range history {
		if !operations[o.Sequence] {
			continue
		}
		for _, version := range []int64{o.CreatedVersion, o.PreviousVersion, o.BaseVersion} {
			versions[store.DesiredKey(i.ID, version)] = true
		}
	}
	known := map[string]bool{"": true}
	for n, o := range history {
		byKey := !known[o.IdempotencyKey] && (o.FinishedAt == nil || now.Before(o.FinishedAt.Add(keep.Key)))
		if n < keep.Last || byKey {
			operations[o.Sequence] = true
		}
		known[o.IdempotencyKey] = true // the key finds its last attempt
	}
	return operations, versions
}

// inUse are the operations that later decisions read, however old they are:
//   - the one in progress;
//   - the newest START and the newest END of each kind: a START may await the END that follows,
//     and has prepared it, the next END is measured against the last one, the key of a START
//     begins anew after an END that failed, and no key that is older than a TERMINATE begins
//     anything;
//   - the last END that did not fail by its stack: a retry takes up its targets;
//   - the STARTs since that one: no server that they name as leaving may join again.
func inUse(i store.Instance, history []store.Operation) map[int64]bool {
	type kind struct {
		operation api.OperationType
		scale     api.ScaleType
		phase     api.OperationPhase
	}
	used, newer := map[int64]bool{i.ProcessingSequence: true}, map[kind]bool{}
	decided := false
	for _, o := range history {
		of := kind{o.Request.Operation, o.Request.Type, o.Phase}
		ends := o.Phase == api.PhaseEnd
		decides := ends && !o.StackFailed()
		names := !ends && o.State != api.Failed && len(o.Request.VnfcInstanceIds) > 0
		if !newer[of] || decides && !decided || names && !decided {
			used[o.Sequence] = true
		}
		newer[of], decided = true, decided || decides
	}
	return used
}
