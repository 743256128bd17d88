package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/store"
)

// FindLost fetches the content that records name and only another replica has, and notes in the
// records which content no replica has: that file is missing until it is uploaded again, or a
// replica that has it is there. Without other replicas it does nothing.
func (s *Service) FindLost(ctx context.Context) error {
	if s.Blobs.Peers == nil {
		return nil
	}
	digests, err := s.named()
	if err != nil {
		return err
	}
	return s.find(ctx, digests)
}

// findAgain is FindLost for the content that is lost: a replica that has it may have come.
func (s *Service) findAgain(ctx context.Context) error {
	var digests []string
	err := s.Store.View(func(tx *store.Tx) error {
		return tx.Files().Each(func(f store.File) {
			if f.Lost {
				digests = append(digests, f.SHA256)
			}
		})
	})
	if err != nil {
		return err
	}
	return s.find(ctx, digests)
}

func (s *Service) find(ctx context.Context, digests []string) error {
	lost := map[string]bool{} // of those that are known
	for _, sha256 := range digests {
		if ctx.Err() != nil {
			break // of the others nothing is noted
		}
		f, err := s.Blobs.Open(sha256)
		switch {
		case err == nil:
			lost[sha256] = false
			_ = f.Close() // it was only read
		case errors.Is(err, ErrNoBlob):
			lost[sha256] = true
		default:
			s.Log.Warn("it is not known whether a package file is lost", "sha256", sha256, "error", err)
		}
	}
	return s.noteLost(lost)
}

func (s *Service) noteLost(lost map[string]bool) error {
	var changed []store.File
	find := func(tx *store.Tx) error {
		changed = nil
		all, err := tx.Files().All()
		for _, f := range all {
			is, known := lost[f.SHA256]
			if is {
				is = !s.isHere(f.SHA256) // uploaded meanwhile
			}
			if known && f.Lost != is {
				f.Lost = is
				changed = append(changed, f)
			}
		}
		return err
	}
	if err := s.Store.View(find); err != nil || len(changed) == 0 {
		return err
	}
	err := s.Store.Update(func(tx *store.Tx) error {
		err := find(tx)
		for _, f := range changed {
			err = errors.Join(err, tx.Files().Put(store.FileKey(f.InstanceID, f.Path), f))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("noting which package files are lost: %w", err)
	}
	for _, f := range changed {
		if f.Lost {
			s.Log.Error("no replica has the content of a package file: upload it again", "instance", f.InstanceID, "path", f.Path, "sha256", f.SHA256)
		} else {
			s.Log.Info("a replica has the content of a package file that was lost", "instance", f.InstanceID, "path", f.Path, "sha256", f.SHA256)
		}
	}
	return nil
}

func (s *Service) isHere(sha256 string) bool {
	f, err := s.Blobs.OpenHere(sha256)
	if err == nil {
		_ = f.Close() // it was only opened
	}
	return err == nil
}
