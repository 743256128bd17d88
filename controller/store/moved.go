package store

import (
	"fmt"
	"time"
)

// Moved says where the state of a store went. The store is never opened again, except to
// finish that.
type Moved struct {
	// To names the database.
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// MovedError says that the state is not in this store any more.
type MovedError struct{ Moved }

// Error says where it is and what to do.
func (e *MovedError) Error() string {
	return fmt.Sprintf("its state was moved to %s on %s: start the controller with `store.etcd` in its configuration; "+
		"if that refuses because the migration was cut off, run `nodehitch-controller migrate --to etcd` again; nothing has been changed", e.To, e.At.UTC().Format(time.RFC3339))
}

// MarkMoved marks the store as moved. Every Open without Options.Moved then refuses it.
func (s *Store) MarkMoved(m Moved) error {
	return s.Update(func(tx *Tx) error { return putMeta(tx.writer, metaMoved, m) })
}

// Moved says where the state of the store went, false if it is here.
func (s *Store) Moved() (m Moved, moved bool, err error) {
	err = s.engine.view(func(r snapshot) (err error) {
		m, moved, err = getMeta[Moved](r, metaMoved)
		return err
	})
	return m, moved, err
}
