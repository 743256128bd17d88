package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// stamp is how a moment stands in the name of a file.
const stamp = "20060102T150405Z"

// upgradeKept is how many backups of upgrades are kept.
const upgradeKept = 2

// upgradePartial is a backup that is being written. One that was killed leaves it behind,
// and the next begins anew.
const upgradePartial = "upgrade.partial"

var upgradeName = regexp.MustCompile(`^upgrade-([0-9]+)-([0-9]{8}T[0-9]{6}Z)\.tar$`)

// upgradeBackup is a backup that a controller wrote before it changed the schema.
type upgradeBackup struct {
	path string
	// schema is that of the store in it; at is when it was taken.
	schema int
	at     string
}

// upgradeBackups are those in a data directory, the newest first.
func upgradeBackups(directory string) ([]upgradeBackup, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("listing the backups of upgrades: %w", err)
	}
	var found []upgradeBackup
	for _, e := range entries {
		if name := upgradeName.FindStringSubmatch(e.Name()); name != nil {
			schema, _ := strconv.Atoi(name[1]) // of one that is too large 0, which no store has
			found = append(found, upgradeBackup{filepath.Join(directory, e.Name()), schema, name[2]})
		}
	}
	slices.SortFunc(found, func(a, b upgradeBackup) int { return -strings.Compare(a.at, b.at) })
	return found, nil
}

// BeforeMigration is that of store.Options: it writes upgrade-<schema>-<time>.tar beside
// the store, an ordinary backup, and returns once it is complete on disk. It keeps this one
// and the newest other one. It refuses, and leaves nothing, if the disk has no room for the
// backup and for what the migration may add to the store. Progress is called with each
// piece that is written.
func (s *Service) BeforeMigration(ctx context.Context, progress func()) (path string, err error) {
	if err := os.Remove(filepath.Join(s.Directory, upgradePartial)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := s.hasRoom(); err != nil {
		return "", err
	}
	c, err := s.Take(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	path = filepath.Join(s.Directory, fmt.Sprintf("upgrade-%d-%s.tar", s.Store.Schema(), s.Now().UTC().Format(stamp)))
	if err := s.writeFile(ctx, c, path, progress); err != nil {
		return "", fmt.Errorf("backing up the store before its schema is changed: %w", err)
	}
	return path, s.dropOld(path)
}

func (s *Service) writeFile(ctx context.Context, c *Copy, path string, progress func()) error {
	partial := filepath.Join(s.Directory, upgradePartial)
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(c.Write(ctx, watched{f, progress}), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return durable.Directory(s.Directory)
}

// watched tells of each piece that is written.
type watched struct {
	io.Writer
	progress func()
}

func (w watched) Write(piece []byte) (int, error) {
	w.progress()
	return w.Writer.Write(piece)
}

// hasRoom refuses if the disk is too full: for two copies of the records (the one that
// the backup is made of, and the one in it), the package files, and one more database,
// which is the most that a migration adds.
func (s *Service) hasRoom() error {
	var need int64
	err := s.Store.View(func(tx *store.Tx) error {
		need = 3 * tx.Size()
		digests, err := tx.Blobs()
		for _, digest := range digests {
			size, err := s.Blobs.Size(digest)
			if err != nil {
				continue // Take says what is wrong with it
			}
			need += size
		}
		return err
	})
	if err != nil {
		return err
	}
	free, err := store.Free(s.Directory)
	if err != nil || free >= need {
		return err
	}
	return fmt.Errorf("the disk is too full to bring the store to a newer schema: that needs %d bytes free in %s, for a backup first, and %d are free: "+
		"free space, or run the controller of before; nothing has been changed", need, s.Directory, free)
}

// dropOld removes the backups of upgrades but this one and the newest of the others.
func (s *Service) dropOld(keep string) error {
	all, err := upgradeBackups(s.Directory)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(all, func(b upgradeBackup) bool { return b.path == keep })
	for _, b := range others[min(len(others), upgradeKept-1):] {
		if err := os.Remove(b.path); err != nil {
			return fmt.Errorf("removing an old backup: %w", err)
		}
	}
	return nil
}

// ExplainNewer adds to the refusal of a store with a newer schema how to go back to the
// state of before, if its backup lies beside the store. Other errors stay as they are.
func ExplainNewer(directory string, err error) error {
	var newer *store.SchemaError
	if !errors.As(err, &newer) || newer.Found < store.Schema() {
		return err
	}
	all, listing := upgradeBackups(directory)
	for _, b := range all {
		if b.schema == store.Schema() {
			return fmt.Errorf("%w. The newer controller left the backup that goes back to the state before it: "+
				"`nodehitch-controller restore --replace %s`, with the --config of this controller; docs/backup.md has the steps", err, b.path)
		}
	}
	return errors.Join(err, listing)
}
