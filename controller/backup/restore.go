package backup

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
)

// StoreFile is the database in a data directory.
const StoreFile = "store.db"

// stageName is the directory in which a restore gets ready; one that was killed
// leaves it behind, and the next begins anew.
const stageName = "restore.partial"

// clockSlack is how far the clocks of two machines may be apart.
const clockSlack = 5 * time.Minute

// Restore is a restore of a backup that no controller hinders.
type Restore struct {
	// File is the backup.
	File string
	// DataDirectory is the controller's. It has to have the CA (pki/) already, unless the
	// backup is of a store that controllers share; the seal key is Key.
	DataDirectory string
	Key           store.KeySource
	// Shared becomes the leader of the store that controllers share; nil, if the controller
	// has its store in the data directory.
	Shared func(context.Context) (*store.Shared, error)
	// Replace allows that there is a store; it is moved aside.
	Replace bool
	// By is who restores, as the events say it.
	By      string
	Version string
	Now     func() time.Time
}

// Restored is what a restore has done.
type Restored struct {
	Manifest archive.Manifest
	// Epoch is the new life of the state.
	Epoch int64
	// Instances and Tokens wait for a confirmation.
	Instances, Tokens int
	// Aside is where the store is that was replaced, "" for none. Carried counts
	// what it knew better than the backup; Unread is why it could not be read. Lost is why it
	// may have known too little.
	Aside        string
	Carried      Carried
	Unread, Lost error
	// NoRoot: the data directory has no root of a CA, which the controller needs.
	NoRoot bool
}

// Run restores. Everything is checked, and the state of the new life complete on
// disk, before anything is replaced. In the data directory that is one rename. So a
// restore that fails, or is killed, has either changed nothing or is done. In a store that
// controllers share it is one commit or several; a restore that is killed between them leaves
// a state that every controller refuses until the restore is run again.
func (r *Restore) Run(ctx context.Context) (out Restored, err error) {
	if r.Shared != nil {
		return r.runShared(ctx)
	}
	release, there, err := r.lockStore()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, release()) }()
	stage, drop, err := newStage(r.DataDirectory)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	begin := &epochChange{by: r.By, out: &out}
	if err := r.prepare(ctx, stage, begin, func() (err error) {
		if there {
			if begin.old, err = r.openCopy(stage); err != nil {
				out.Unread = cause(err)
			}
		}
		return nil
	}); err != nil {
		return out, err
	}
	pkiDirectory := filepath.Join(r.DataDirectory, "pki")
	if err := r.staged(stage, nil, func(s *store.Store) error { return pki.MoveToDirectory(s, pkiDirectory) }); err != nil {
		return out, fmt.Errorf("%s: %w", r.File, err)
	}
	if out.Aside, err = r.place(stage, there); err != nil {
		return out, fmt.Errorf("putting the restored state in place: %w; run the restore again", err)
	}
	hasRoot, err := pki.HasRoot(pkiDirectory)
	if hasRoot {
		err = errors.Join(err, own(r.DataDirectory, pkiDirectory))
	}
	out.NoRoot = !hasRoot
	return out, err
}

// newStage makes an empty stage. drop removes it.
func newStage(dataDirectory string) (stage string, drop func() error, err error) {
	stage = filepath.Join(dataDirectory, stageName)
	if err := errors.Join(os.RemoveAll(stage), os.MkdirAll(filepath.Join(stage, "blobs"), 0o700)); err != nil {
		return "", nil, fmt.Errorf("making room for the new state: %w", err)
	}
	return stage, func() error { return os.RemoveAll(stage) }, nil
}

// prepare makes the stage the state of the new life. old opens what is replaced.
func (r *Restore) prepare(ctx context.Context, stage string, begin *epochChange, old func() error) error {
	seal, err := r.unpack(ctx, stage, &begin.out.Manifest)
	if errors.Is(err, store.ErrNotRecords) {
		err = errors.Join(err, archive.ErrDamaged)
	}
	if errors.Is(err, archive.ErrDamaged) {
		err = fmt.Errorf("%w; use another backup, or another copy of this one", err)
	}
	if err == nil {
		err = r.renew(stage, seal, begin, old)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was changed", r.File, err)
	}
	return nil
}

// lockStore keeps controllers away from the store that is there, if there is one.
func (r *Restore) lockStore() (release func() error, there bool, err error) {
	path := filepath.Join(r.DataDirectory, StoreFile)
	release, err = store.Lock(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() error { return nil }, false, nil
	case err != nil:
		return nil, false, err
	case !r.Replace:
		return nil, false, errors.Join(fmt.Errorf("there is a store already, %s: restore with --replace, which moves it aside", path), release())
	}
	return release, true, nil
}

// unpack puts the content of the backup into the stage and verifies that it is complete.
func (r *Restore) unpack(ctx context.Context, stage string, m *archive.Manifest) (seal archive.Seal, err error) {
	f, err := os.Open(r.File)
	if err != nil {
		return seal, err
	}
	defer f.Close()
	blobs := filepath.Join(stage, "blobs")
	_, seal, err = archive.Read(f, archive.Taker{
		Manifest: func(found archive.Manifest) error { *m = found; return r.fits(found) },
		Store:    func(_ int64, c io.Reader) error { return writeStore(filepath.Join(stage, StoreFile), m.Format, c) },
		Blob: func(digest string, _ int64, c io.Reader) error {
			path := filepath.Join(blobs, digest[:2], digest)
			return errors.Join(ctx.Err(), os.MkdirAll(filepath.Dir(path), 0o700), write(path, c))
		},
	})
	return seal, err
}

// fits refuses a backup that this controller cannot continue from.
func (r *Restore) fits(m archive.Manifest) error {
	if m.Schema > store.Schema() {
		return fmt.Errorf("it was made by the controller %s, and its schema is version %d; this one reads versions up to %d: restore with that one",
			m.ControllerVersion, m.Schema, store.Schema())
	}
	id, err := r.Key.ID()
	if err != nil {
		return err
	}
	if id != m.KeyID {
		return fmt.Errorf("it is sealed with the key %s, and %s holds the key %s: restore with the key of the controller that made the backup (sealKeyFile, --seal-key-file)",
			m.KeyID, r.Key, id)
	}
	if now := r.Now(); now.Add(clockSlack).Before(m.TakenAt) {
		return fmt.Errorf("it was taken at %s, and the clock of this machine says %s: set the clock first: the new epoch must be later than every epoch before",
			m.TakenAt.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// writeStore makes the file of a store of what a backup of this format has.
func writeStore(path string, format int, content io.Reader) error {
	if format == archive.FormatDatabase {
		return write(path, content)
	}
	return store.Import(path, content)
}

func write(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Sync(), f.Close())
}

// renew begins the new life in the staged store.
func (r *Restore) renew(stage string, seal archive.Seal, begin *epochChange, old func() error) error {
	out := begin.out
	events := &event.Log{Hub: new(notify.Hub), Now: r.Now, Keep: event.Kept}
	return r.staged(stage, events.Derive, func(s *store.Store) error {
		if !hmac.Equal(seal.MAC, s.MAC(macPurpose, seal.Sums)) {
			return errNotOurs
		}
		if s.Epoch() != out.Manifest.Epoch {
			return fmt.Errorf("its store is of the epoch %d and its manifest says %d", s.Epoch(), out.Manifest.Epoch)
		}
		if err := hasBlobs(s, filepath.Join(stage, "blobs")); err != nil {
			return err
		}
		if err := old(); err != nil {
			return err
		}
		if begin.old != nil {
			defer begin.old.Close() //nolint:errcheck // a copy, which was only read
		}
		if err := events.Load(s); err != nil {
			return err
		}
		from := store.Origin{TakenAt: out.Manifest.TakenAt, Epoch: out.Manifest.Epoch, RestoredAt: r.Now().UTC()}
		var err error
		out.Epoch, err = s.BeginEpoch(store.NewEpoch{From: from, After: begin.epoch(), Change: begin.change})
		return err
	})
}

var errNotOurs = errors.New("it was not made with the controller's key, or was changed since")

// staged opens the staged store for fn; derive is its store.Options.Derive.
func (r *Restore) staged(stage string, derive func(*store.Tx) error, fn func(*store.Store) error) error {
	s, err := r.open(filepath.Join(stage, StoreFile), derive)
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.Close())
}

// open opens a store; derive is its store.Options.Derive.
func (r *Restore) open(path string, derive func(*store.Tx) error) (*store.Store, error) {
	key := r.Key
	key.Create = false
	return store.Open(store.Options{Path: path, Key: key, Now: r.Now, Derive: derive})
}

// openCopy opens a copy of the store that is replaced, which nothing changes then.
func (r *Restore) openCopy(stage string) (*store.Store, error) {
	from, err := os.Open(filepath.Join(r.DataDirectory, StoreFile))
	if err != nil {
		return nil, err
	}
	defer from.Close()
	path := filepath.Join(stage, "replaced.db")
	if err := write(path, from); err != nil {
		return nil, err
	}
	return r.open(path, nil)
}

// cause is what is wrong with the old store, without the path of its copy and the advice
// that is for the start of a controller.
func cause(err error) error {
	var damaged *store.DamagedError
	var newer *store.SchemaError
	var moved *store.MovedError
	switch {
	case errors.As(err, &moved):
		return fmt.Errorf("its state was moved to %s", moved.To)
	case errors.As(err, &damaged):
		return damaged.Err
	case errors.As(err, &newer):
		return fmt.Errorf("its schema is version %d, which a newer controller wrote", newer.Found)
	}
	return err
}

// hasBlobs makes sure that every package file on record is in the backup.
func hasBlobs(s *store.Store, dir string) error {
	var digests []string
	err := s.View(func(tx *store.Tx) (err error) {
		digests, err = tx.Blobs()
		return err
	})
	if err != nil {
		return err
	}
	var missing bytes.Buffer
	for _, digest := range digests {
		if _, err := os.Stat(filepath.Join(dir, digest[:2], digest)); err != nil {
			fmt.Fprintf(&missing, " %s", digest)
		}
	}
	if missing.Len() > 0 {
		return fmt.Errorf("the backup lacks these package files, which are on record:%s", missing.String())
	}
	return nil
}
