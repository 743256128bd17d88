package backup

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// The commands that replace the records of a store that controllers share. Their names are in
// it while they do.
const (
	byRestore     = "restore"
	byWasRestored = "restore --etcd-was-restored"
	byMigrate     = "migrate --to etcd"
)

// campaignLimit is longer than the lease of a controller that was killed.
const campaignLimit = 30 * time.Second

// asideName are the directories in which replaced states are kept.
var asideName = regexp.MustCompile(`^replaced-[0-9]{8}T[0-9]{6}Z(-[0-9]+)?$`)

// asideUnread stands for such a directory if the old state could not be read.
const asideUnread = "unread"

// asideFile is the backup in such a directory.
const asideFile = "nodehitch.tar"

// runShared is Run for a store that controllers share.
func (r *Restore) runShared(ctx context.Context) (out Restored, err error) {
	release, err := holdMoved(r.DataDirectory, r.Key)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, release()) }()
	stage, drop, err := newStage(r.DataDirectory)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	to, err := openShared(ctx, r.Shared, r.Key, byRestore)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	cutOff := to.Unfinished()
	if !to.Empty() && !r.Replace && (cutOff == nil || cutOff.By != byRestore) {
		return out, errors.New("etcd holds a state already: restore with --replace, which keeps a backup of it in the data directory; nothing was changed")
	}
	begin := &epochChange{by: r.By, out: &out, after: to.Epoch()}
	aside := ""
	err = r.prepare(ctx, stage, begin, func() (err error) {
		if aside, err = r.keep(ctx, to, cutOff, &out); err != nil || aside == "" {
			return err
		}
		out.Aside = filepath.Join(r.DataDirectory, aside)
		if begin.old, err = r.openAside(stage, filepath.Join(out.Aside, asideFile)); err != nil {
			out.Unread = cause(err)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if err := r.staged(stage, nil, func(s *store.Store) error { return takeAuthority(s, r.DataDirectory) }); err != nil {
		return out, fmt.Errorf("%s: %w; nothing was changed", r.File, err)
	}
	if err := r.placeBlobs(stage); err != nil {
		return out, fmt.Errorf("putting the package files in place: %w; run the restore again", err)
	}
	if aside == "" && out.Unread != nil {
		aside = asideUnread
	}
	return out, r.staged(stage, nil, func(s *store.Store) error { return to.Fill(s, store.Unfinished{By: byRestore, Aside: aside}, nil) })
}

// openShared becomes the leader and loads what is there. It refuses what another command has
// left unfinished.
func openShared(ctx context.Context, campaign func(context.Context) (*store.Shared, error), key store.KeySource, by string) (*store.Replacement, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, campaignLimit, errors.New("another controller is the leader, or etcd does not answer"))
	defer cancel()
	shared, err := campaign(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w; stop all controllers first", err)
	}
	to, err := store.OpenReplacement(store.Options{Shared: shared, Key: key})
	if err != nil {
		return nil, err
	}
	// What ended between a new epoch and its consequences is complete, and is restored over.
	if u := to.Unfinished(); u != nil && u.By != by && (by != byRestore || u.By != byWasRestored) {
		return nil, errors.Join(&store.UnfinishedError{Unfinished: *u}, to.Close())
	}
	return to, nil
}

// holdMoved refuses a data directory whose own store is in use, or has not been moved: there
// would be two states.
func holdMoved(dataDirectory string, key store.KeySource) (release func() error, err error) {
	path := filepath.Join(dataDirectory, StoreFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	key.Create = false
	check := func(s *store.Store) error {
		_, moved, err := s.Moved()
		if err == nil && !moved {
			err = fmt.Errorf("%s holds a state that was not moved to etcd: run `nodehitch-controller migrate --to etcd` first, or move the file out of the data directory; %w", path, errNotMoved)
		}
		return err
	}
	s, err := store.Open(store.Options{Path: path, Key: key, Moved: true, BeforeMigration: func(s *store.Store) error {
		return errors.Join(check(s), errOlder)
	}})
	switch {
	case err == nil:
		if err := check(s); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s.Close, nil
	case errors.Is(err, errOlder) && !errors.Is(err, errNotMoved):
		return store.Lock(path) // it stays of the older schema
	}
	return nil, err
}

var (
	errOlder    = errors.New("its schema is older")
	errNotMoved = errors.New("nothing was changed")
)

// keep writes a backup of the state that is replaced and returns the name of its directory, ""
// for none. If a restore was cut off, it is the one that this restore has kept.
func (r *Restore) keep(ctx context.Context, to *store.Replacement, cutOff *store.Unfinished, out *Restored) (aside string, err error) {
	if cutOff != nil && cutOff.By == byRestore {
		kept := cutOff.Aside
		if out.Unread = unreadOf(to, kept); out.Unread != nil {
			kept = ""
		}
		if kept != "" && !asideName.MatchString(kept) {
			return "", fmt.Errorf("the restore that was cut off has kept the old state in %.100q, which is not a name of such a directory", kept)
		}
		return kept, nil
	}
	var old *store.Store
	if old, out.Unread = to.Old(); old == nil {
		out.Unread = cause(out.Unread)
		return "", nil
	}
	out.Lost = to.Lost()
	path, err := newDirectory(filepath.Join(r.DataDirectory, "replaced-"+r.Now().UTC().Format(stamp)))
	if err != nil {
		return "", err
	}
	if err := r.writeAside(ctx, old, path); err != nil {
		return "", fmt.Errorf("keeping a backup of the state that is replaced: %w", errors.Join(err, os.RemoveAll(path)))
	}
	return filepath.Base(path), errors.Join(own(r.DataDirectory, path), durable.Directory(path), durable.Directory(r.DataDirectory))
}

// unreadOf is why a restore that was cut off has kept nothing of a state that was there.
func unreadOf(to *store.Replacement, aside string) error {
	if err := to.Signed(); err != nil {
		return cause(err)
	}
	if aside == asideUnread {
		return errors.New("the restore that was cut off could not read it either")
	}
	return nil
}

func (r *Restore) writeAside(ctx context.Context, old *store.Store, directory string) (err error) {
	blobs, err := files.OpenBlobs(r.DataDirectory, 0, r.Now)
	if err != nil {
		return err
	}
	service := &Service{Store: old, Blobs: blobs, Directory: r.DataDirectory, Version: r.Version, Now: r.Now, Log: slog.New(slog.DiscardHandler)}
	c, err := service.take(true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	f, err := os.OpenFile(filepath.Join(directory, asideFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.Write(ctx, f), f.Sync(), f.Close())
}

// openAside opens a copy of the store in a backup that a restore has kept.
func (r *Restore) openAside(stage, path string) (s *store.Store, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("a restore was cut off, and what it has kept of the old state is not here: %w", err)
	}
	defer f.Close()
	copied := filepath.Join(stage, "replaced.db")
	var manifest archive.Manifest
	_, seal, err := archive.Read(f, archive.Taker{
		Manifest: func(m archive.Manifest) error { manifest = m; return nil },
		Store:    func(_ int64, c io.Reader) error { return writeStore(copied, manifest.Format, c) },
		Blob:     func(_ string, _ int64, c io.Reader) error { _, err := io.Copy(io.Discard, c); return err },
	})
	if err != nil {
		return nil, err
	}
	if s, err = r.open(copied, nil); err != nil {
		return nil, err
	}
	if !hmac.Equal(seal.MAC, s.MAC(macPurpose, seal.Sums)) {
		return nil, errors.Join(errNotOurs, s.Close())
	}
	return s, nil
}

// takeAuthority adds the CA in the data directory to the records, unless the records have one.
func takeAuthority(s *store.Store, dataDirectory string) error {
	var instances, pairs int
	err := s.View(func(tx *store.Tx) error {
		n, err := tx.Instances().Len()
		if err != nil {
			return err
		}
		instances = n
		pairs, err = tx.Authority().Len()
		return err
	})
	if err != nil || pairs > 0 {
		return err
	}
	directory := filepath.Join(dataDirectory, "pki")
	found, err := pki.HasRoot(directory)
	switch {
	case err != nil:
		return err
	case found:
		return pki.CopyToStore(directory, s)
	case instances > 0:
		return fmt.Errorf("%s has no CA, and neither has the state, whose agents trust no other one: put the pki/ of its controller there first", directory)
	}
	return nil
}
