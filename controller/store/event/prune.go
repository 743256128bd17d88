package event

import (
	"context"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
)

// atOnce is how many records one transaction deletes.
const atOnce = 100

// Sweep deletes what is not kept any more. If there is nothing to delete, it does not touch the
// store.
func (l *Log) Sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		id, excess := l.due()
		if excess == 0 {
			return nil
		}
		if err := l.prune(id, excess); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// due is an instance that has too much, and how many bytes; 0 for none. Age and bytes decide, not
// what an event says.
func (l *Log) due() (instanceID string, excess int) {
	horizon := l.horizon()
	l.mu.Lock()
	defer l.mu.Unlock()
	all, largest := 0, 0
	for id, of := range l.kept {
		switch {
		case of.bytes > l.Keep.Each:
			return id, of.bytes - l.Keep.Each
		case of.first < horizon:
			return id, 1
		}
		if all += of.bytes; of.bytes > largest {
			instanceID, largest = id, of.bytes
		}
	}
	return instanceID, max(0, all-l.Keep.All)
}

// horizon is the oldest sequence that is kept.
func (l *Log) horizon() int64 { return sequenceAt(l.Now().Add(-l.Keep.Age)) }

// prune deletes the oldest records of an instance, of so many bytes, and those that are too old;
// at most as many as one transaction may. It deletes what nodes have said before anything else,
// because the keys of those records come first.
func (l *Log) prune(id string, excess int) error {
	horizon := l.horizon()
	return l.store.Update(func(t *store.Tx) error {
		records, err := t.Events().Sizes(store.InstancePrefix(id))
		if err != nil {
			return err
		}
		left := span{pruned: l.prunedTo(id)}
		freed, dropped, oldest := 0, 0, -1
		for n, record := range records {
			_, sequence, err := store.ParseEventsKey(record.Key)
			if err != nil {
				return err
			}
			if dropped == atOnce || freed >= excess && sequence >= horizon {
				if oldest < 0 {
					oldest, left.first = n, sequence
				}
				left.first = min(left.first, sequence)
				continue
			}
			last, err := drop(t, record.Key, sequence)
			if err != nil {
				return err
			}
			left.pruned = max(left.pruned, last)
			freed, dropped = freed+record.Bytes, dropped+1
		}
		if oldest >= 0 {
			grown, err := mark(t, records[oldest], left.pruned)
			if err != nil {
				return err
			}
			freed -= grown
		}
		t.OnCommit(func() { l.pruned(id, freed, left, oldest < 0) })
		return nil
	})
}

// prunedTo is up to where events of an instance are no longer kept.
func (l *Log) prunedTo(id string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[id].pruned
}

// drop deletes a record, and returns the sequence of its last event.
func drop(t *store.Tx, key string, sequence int64) (last int64, err error) {
	r, _, err := t.Events().Get(key)
	if err != nil {
		return 0, err
	}
	return sequence + int64(len(r.Events)) - 1, t.Events().Delete(key)
}

// mark says at the oldest record that is kept what is no longer, and returns how many bytes that
// takes.
func mark(t *store.Tx, oldest store.Size, pruned int64) (grown int, err error) {
	r, _, err := t.Events().Get(oldest.Key)
	if err != nil {
		return 0, err
	}
	r.PrunedTo = pruned
	size, err := put(t, oldest.Key, r)
	return size - oldest.Bytes, err
}

// pruned takes note. Meanwhile others may have written records of the instance.
func (l *Log) pruned(id string, freed int, left span, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all {
		delete(l.kept, id)
		l.gone = max(l.gone, left.pruned)
		return
	}
	of := l.kept[id]
	of.bytes, of.first, of.pruned = of.bytes-freed, left.first, left.pruned
	l.kept[id] = of
}

// Run sweeps until ctx ends.
func (l *Log) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := l.Sweep(ctx); err != nil && ctx.Err() == nil {
			l.Log.Error("events that are no longer kept cannot be deleted", "error", err)
		}
	}
}
