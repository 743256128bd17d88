package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Origin is the backup that this life of the state began with.
type Origin struct {
	// TakenAt is when the backup was taken, Epoch the life that it was taken of.
	TakenAt time.Time `json:"takenAt"`
	Epoch   int64     `json:"epoch"`
	// RestoredAt is when it was restored.
	RestoredAt time.Time `json:"restoredAt"`
}

// String is the origin for a sentence.
func (o *Origin) String() string {
	if o == nil {
		return "restored from a backup"
	}
	return fmt.Sprintf("restored from a backup of %s on %s", o.TakenAt.UTC().Format(time.RFC3339), o.RestoredAt.UTC().Format(time.RFC3339))
}

// Life is how another life of the state begins.
type Life struct {
	From Origin
	// After is an epoch that the new one has to exceed, beside the store's own.
	After int64
	// Change is done in the same transaction, with the new epoch; nil does nothing.
	Change func(tx *Tx, epoch int64) error
}

// NewLife begins another life of the state and returns its epoch. A restore does so
// once, on the restored file, before anybody is answered: what was trusted,
// reported and permitted in an earlier life then waits for an operator. The epoch
// is one that no earlier life had, unless the clock went back.
func (s *Store) NewLife(l Life) (int64, error) {
	epoch := max(s.now().Unix(), s.Epoch()+1, l.After+1)
	m, err := s.readMeta()
	if err == nil {
		m.epoch = epoch
		err = s.Update(func(tx *Tx) error {
			if err := errors.Join(m.put(tx.writer), putOrigin(tx.writer, l.From)); err != nil || l.Change == nil {
				return err
			}
			return l.Change(tx, epoch)
		})
	}
	if err != nil {
		return 0, fmt.Errorf("beginning a new epoch: %w", err)
	}
	s.epoch.Store(epoch)
	s.origin.Store(&l.From)
	return epoch, nil
}

// Origin is the backup that this life began with; nil, if none was restored.
func (s *Store) Origin() *Origin { return s.origin.Load() }

func putOrigin(w writer, o Origin) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.put(bucketMeta, metaOrigin, summed(bucketMeta, metaOrigin, text))
}

func (s *Store) readOrigin() error {
	return s.engine.view(func(r reader) error {
		value := r.get(bucketMeta, metaOrigin)
		if value == nil {
			return nil
		}
		text, err := textOf(bucketMeta, metaOrigin, value)
		if err != nil {
			return err
		}
		var o Origin
		if err := json.Unmarshal(text, &o); err != nil {
			return &CorruptError{Bucket: bucketMeta, Key: metaOrigin, Err: err}
		}
		s.origin.Store(&o)
		return nil
	})
}
