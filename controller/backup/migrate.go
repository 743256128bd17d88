package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
)

// Migration moves the state of a controller that does not run into an etcd.
type Migration struct {
	// DataDirectory is the controller's. Package files stay in it.
	DataDirectory string
	Key           store.KeySource
	// Shared becomes the leader of the store that controllers share. Its Name is that of the
	// place where the state goes.
	Shared func(context.Context) (*store.Shared, error)
	Now    func() time.Time
}

// Migrated is what a migration has done.
type Migrated struct {
	Epoch int64
	// Already: it was done before.
	Already bool
	// To names the place of the state.
	To string
}

// Run moves the state. Nothing of it is lost and its epoch stays. The steps have an order in
// which there are never two states that a controller accepts: first all records are in etcd, which
// refuses controllers until the end; then the old store is marked as moved, and refuses them
// from then on; then the last commit follows. A migration that was cut off is run again.
func (m *Migration) Run(ctx context.Context) (out Migrated, err error) {
	key := m.Key
	key.Create = false
	from, err := store.Open(store.Options{Path: filepath.Join(m.DataDirectory, StoreFile), Key: key, Now: m.Now, Moved: true,
		BeforeMigration: func(s *store.Store) error {
			return fmt.Errorf("its schema is version %d and this controller's is %d: start this controller once without `store.etcd`, which backs the store up and changes it, then stop it and migrate; nothing was changed",
				s.Schema(), store.Schema())
		}})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	moved, isMoved, err := from.Moved()
	if err != nil {
		return out, err
	}
	out = Migrated{Epoch: from.Epoch(), To: moved.To}
	stage, drop, err := newStage(m.DataDirectory)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	to, err := openShared(ctx, func(ctx context.Context) (*store.Shared, error) {
		shared, err := m.Shared(ctx)
		if err == nil {
			out.To = shared.Name
		}
		return shared, err
	}, m.Key, byMigrate)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	switch {
	case isMoved && moved.To != out.To:
		return out, fmt.Errorf("the state was moved to %s already, and the configuration names %s: nothing was changed", moved.To, out.To)
	case !to.Empty() && to.Unfinished() == nil && isMoved:
		out.Already = true
		return out, nil
	case !to.Empty() && to.Unfinished() == nil:
		return out, fmt.Errorf("%s holds a state already: set another `store.etcd.prefix`; nothing was changed", out.To)
	}
	if u := to.Unfinished(); u != nil && to.Signed() != nil {
		return out, fmt.Errorf("another controller's migration to %s was cut off: run `nodehitch-controller %s` there, or set another `store.etcd.prefix`; nothing was changed", out.To, u.By)
	}
	if err := to.Lost(); err != nil && to.Empty() {
		return out, fmt.Errorf("%s is not empty as far as this controller knows: %w", out.To, err)
	}
	staged := filepath.Join(stage, StoreFile)
	if err := copyStore(from, staged); err != nil {
		return out, fmt.Errorf("copying the records: %w; nothing was changed", err)
	}
	s, err := store.Open(store.Options{Path: staged, Key: key, Now: m.Now})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := takeAuthority(s, m.DataDirectory); err != nil {
		return out, fmt.Errorf("%w; nothing was changed", err)
	}
	return out, to.Fill(s, store.Unfinished{By: byMigrate}, func() error {
		return from.MarkMoved(store.Moved{To: out.To, At: m.Now().UTC()})
	})
}

// copyStore makes a file of the records of a store. It is not marked as moved.
func copyStore(from *store.Store, path string) error {
	read, write := io.Pipe()
	go func() {
		write.CloseWithError(from.View(func(tx *store.Tx) error { return tx.Export(write) }))
	}()
	err := store.Import(path, read)
	return errors.Join(err, read.Close())
}

// WasRestored begins a new epoch of a store that controllers share, after its etcd was restored
// behind their back.
type WasRestored struct {
	DataDirectory string
	Key           store.KeySource
	Shared        func(context.Context) (*store.Shared, error)
	// By is who restores, as the events say it.
	By  string
	Now func() time.Time
}

// Run begins the epoch: what was trusted and permitted waits for an operator, as after a
// restore. Nothing else is changed.
func (w *WasRestored) Run(ctx context.Context) (out Restored, err error) {
	stage, drop, err := newStage(w.DataDirectory)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	to, err := openShared(ctx, w.Shared, w.Key, byWasRestored)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	old, err := to.Old()
	switch {
	case err != nil:
		return out, fmt.Errorf("the state in etcd: %w", err)
	case old == nil:
		return out, errors.New("etcd holds no state: nothing was changed; restore a backup")
	}
	staged := filepath.Join(stage, StoreFile)
	if err := copyStore(old, staged); err != nil {
		return out, fmt.Errorf("copying the records: %w; nothing was changed", err)
	}
	key := w.Key
	key.Create = false
	events := &event.Log{Hub: new(notify.Hub), Now: w.Now, Keep: event.Kept}
	s, err := store.Open(store.Options{Path: staged, Key: key, Now: w.Now, Derive: events.Derive})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := events.Load(s); err != nil {
		return out, err
	}
	begin := &epochChange{by: w.By, out: &out, after: to.Epoch()}
	out.Epoch, err = s.BeginEpoch(store.NewEpoch{From: store.Origin{Epoch: s.Epoch(), RestoredAt: w.Now().UTC(), EtcdWasRestored: true},
		After: begin.epoch(), Change: begin.change})
	if err != nil {
		return out, fmt.Errorf("%w; nothing was changed", err)
	}
	return out, to.Fill(s, store.Unfinished{By: byWasRestored}, nil)
}
