// Package backup takes copies of a controller's state while it runs, and restores
// one while none runs. A restore begins another epoch of the state: the backup has
// forgotten what was revoked, permitted and finished since, so nothing of it is
// trusted before an operator says so. The seal key and the CA's keys are in no backup.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/shared/api"
)

// macPurpose separates the MAC of a backup from all others made with the store's key.
const macPurpose = "backup"

// Service takes backups.
type Service struct {
	Store *store.Store
	Blobs *files.Blobs
	// Directory has room for a copy of the records for as long as a backup
	// takes: the client may be slow, and the store must not wait for that.
	Directory string
	// Version is this controller's.
	Version string
	// Excluded is what the operator has to keep apart from the backups.
	Excluded []archive.Excluded
	Now      func() time.Time
	Log      *slog.Logger
}

// Copy is the state as of one moment. Nothing that happens later is in it, and what
// it needs stays until Close.
type Copy struct {
	manifest archive.Manifest
	service  *Service
	records  *os.File
	blobs    []files.Blob
	release  func()
}

// Take makes a copy of the state. It is quick: package files are not copied, only
// kept from being removed.
func (s *Service) Take(context.Context) (*Copy, error) { return s.take(false) }

// take is Take. If lenient, package files that are not here are left out.
func (s *Service) take(lenient bool) (*Copy, error) {
	c := &Copy{service: s, release: func() {}, manifest: archive.Manifest{
		Format: archive.Format, ControllerVersion: s.Version, Schema: s.Store.Schema(),
		KeyID: s.Store.KeyID(), Epoch: s.Store.Epoch(), TakenAt: s.Now().UTC(), Excluded: s.Excluded,
	}}
	if err := c.fill(lenient); err != nil {
		return nil, errors.Join(explain(fmt.Errorf("taking a backup: %w", err)), c.Close())
	}
	return c, nil
}

// explain makes a problem of an error of the disk, which has no room for the copy of
// the records.
func explain(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
		"the controller's disk is full: a backup needs room for a copy of the records; free space under its data directory, then try again"), err)
}

func (c *Copy) fill(lenient bool) (err error) {
	if c.records, err = nameless(c.service.Directory); err != nil {
		return err
	}
	var digests []string
	c.release, err = c.service.Blobs.Pin(func() ([]string, error) {
		digests, err = c.snapshot()
		return digests, err
	})
	if err != nil {
		c.release = func() {}
		return err
	}
	for _, digest := range digests {
		size, err := c.service.Blobs.Size(digest)
		if lenient && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("the package file with the SHA-256 %s: %w; upload it again, or delete its instance", digest, err)
		}
		c.blobs = append(c.blobs, files.Blob{SHA256: digest, SizeBytes: size})
		c.manifest.PackageFileBytes += size
	}
	c.manifest.PackageFiles = len(c.blobs)
	return nil
}

// snapshot copies the records and lists the package files that this very state
// names, each once.
func (c *Copy) snapshot() (digests []string, err error) {
	err = c.service.Store.View(func(tx *store.Tx) error {
		digests, err = tx.Blobs()
		if err != nil {
			return err
		}
		return tx.Export(c.records)
	})
	if err != nil {
		return nil, err
	}
	c.manifest.StoreBytes, err = c.records.Seek(0, io.SeekCurrent)
	return digests, err
}

// nameless is a file that is gone when it is closed, however that comes about.
func nameless(directory string) (*os.File, error) {
	f, err := os.CreateTemp(directory, ".backup-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Write writes the backup. An error leaves what was written without its end, by
// which everybody knows it for cut off.
func (c *Copy) Write(ctx context.Context, to io.Writer) error {
	w, err := archive.NewWriter(to, c.manifest)
	if err != nil {
		return err
	}
	if _, err := c.records.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.Store(c.manifest.StoreBytes, c.records); err != nil {
		return err
	}
	for _, b := range c.blobs {
		if err := errors.Join(ctx.Err(), c.writeBlob(w, b)); err != nil {
			return err
		}
	}
	err = w.Close(func(sums []byte) []byte { return c.service.Store.MAC(macPurpose, sums) })
	if err == nil {
		c.service.Log.Info("backup taken", "event", api.EventBackupTaken, "epoch", c.manifest.Epoch, "storeBytes", c.manifest.StoreBytes,
			"packageFiles", len(c.blobs), "packageFileBytes", c.manifest.PackageFileBytes)
	}
	return err
}

// Deliver writes the backup to a client and puts on record that it was taken. The client may
// still fail to keep it: that is the client's to say.
func (c *Copy) Deliver(ctx context.Context, to io.Writer) error {
	if err := c.Write(ctx, to); err != nil {
		return err
	}
	err := c.service.Store.Update(func(tx *store.Tx) error {
		return tx.PutLastBackup(store.LastBackup{TakenAt: c.manifest.TakenAt})
	})
	if err != nil { // the backup is complete all the same
		c.service.Log.Error("the time of a backup cannot be kept, so nodehitch_backup_age_seconds is that of the one before", "error", err)
	}
	return nil
}

func (c *Copy) writeBlob(w *archive.Writer, b files.Blob) error {
	f, err := c.service.Blobs.Open(b.SHA256)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.Blob(b.SHA256, b.SizeBytes, f)
}

// Close releases what the copy uses.
func (c *Copy) Close() error {
	c.release()
	if c.records == nil {
		return nil
	}
	return c.records.Close()
}
