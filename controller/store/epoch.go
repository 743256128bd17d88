package store

import (
	"errors"
	"fmt"
	"time"
)

// Origin is the backup that this epoch began with.
type Origin struct {
	// TakenAt is when the backup was taken, Epoch the epoch that it was taken in.
	TakenAt time.Time `json:"takenAt"`
	Epoch   int64     `json:"epoch"`
	// RestoredAt is when it was restored.
	RestoredAt time.Time `json:"restoredAt"`
	// EtcdWasRestored: not a backup of the controller's was restored, but etcd by one of its own,
	// of an unknown time.
	EtcdWasRestored bool `json:"etcdWasRestored,omitempty"`
}

// String is the origin for a sentence.
func (o *Origin) String() string {
	if o == nil {
		return "restored from a backup"
	}
	if o.EtcdWasRestored {
		return fmt.Sprintf("restored with etcd, which was noticed on %s", o.RestoredAt.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("restored from a backup of %s on %s", o.TakenAt.UTC().Format(time.RFC3339), o.RestoredAt.UTC().Format(time.RFC3339))
}

// NewEpoch is how an epoch begins.
type NewEpoch struct {
	From Origin
	// After is an epoch that the new one must exceed, besides the store's own.
	After int64
	// Change is done in the same transaction, with the new epoch; nil does nothing.
	Change func(tx *Tx, epoch int64) error
}

// BeginEpoch begins another epoch of the state and returns its number. A restore does so
// once, on the restored file, before any request is answered: what was trusted,
// reported and permitted in an earlier epoch then waits for an operator. No earlier
// epoch had the same number, unless the clock went back.
func (s *Store) BeginEpoch(n NewEpoch) (int64, error) {
	m := *s.meta.Load()
	before, epoch := m.epoch, max(s.now().Unix(), m.epoch+1, n.After+1)
	m.epoch, m.origin = epoch, &n.From
	err := s.Update(func(tx *Tx) error {
		tx.epochs = &Change[int64]{Before: &before, After: &epoch}
		if err := errors.Join(m.put(tx.writer), putOrigin(tx.writer, n.From)); err != nil || n.Change == nil {
			return err
		}
		return n.Change(tx, epoch)
	})
	if err != nil {
		return 0, fmt.Errorf("beginning a new epoch: %w", err)
	}
	s.meta.Store(&m)
	return epoch, nil
}

// Restored is the epoch that the transaction ends and the one that it begins, with its origin; nil
// if it begins none.
func (t *Tx) Restored() (*Change[int64], *Origin, error) {
	if t.epochs == nil {
		return nil, nil, nil
	}
	o, _, err := getMeta[Origin](t.reader, metaOrigin)
	return t.epochs, &o, err
}

// Origin is the backup that this epoch began with; nil, if none was restored.
func (s *Store) Origin() *Origin { return s.meta.Load().origin }

func putOrigin(w writer, o Origin) error { return putMeta(w, metaOrigin, o) }
