package lcm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
)

// FileStored looks at a package file that has just been recorded: its content is
// checked for every use that the parameters make of it, and the documents that name
// it follow. A file of an instance that does not exist yet is checked when the
// instance comes.
func (s *Service) FileStored(ctx context.Context, instanceID, path string) error {
	return s.judgeThose(ctx, instanceID, func(f store.File, _ string) bool { return f.Path == path })
}

// judgeLeft checks the files whose check a restart has cut off, and those for which
// this controller looks for more than the one before.
func (s *Service) judgeLeft(ctx context.Context, instanceID string) error {
	return s.judgeThose(ctx, instanceID, func(f store.File, judged string) bool { return f.Judged != judged })
}

// judgeThose checks files and records what was found of all of them at once, or the
// documents would lose what the others are for in between.
func (s *Service) judgeThose(ctx context.Context, instanceID string, those func(f store.File, judged string) bool) error {
	for stale := true; stale; {
		d, files, err := s.uses(instanceID)
		if err != nil || d == nil || d.params == nil {
			return err
		}
		judged := judgedFor(d.Desired)
		files = slices.DeleteFunc(files, func(f store.File) bool { return !those(f, judged) })
		if len(files) == 0 {
			return nil
		}
		verdicts, err := s.judge(d.params, files)
		if err != nil {
			return err
		}
		err = s.update(ctx, instanceID, func(u *unit) error {
			now, err := u.inForce()
			if err != nil {
				return err
			}
			if stale = judgedFor(now) != judged; stale {
				return nil // other parameters came meanwhile: look again with those
			}
			if err := u.record(verdicts, judged); err != nil {
				return err
			}
			return u.settle() // documents name the content
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// judgedFor names the parameters of a desired state, by their sealed text, which stays
// the same for as long as they do, and what is looked for: a controller that looks for
// more looks again.
func judgedFor(d store.Desired) string {
	sum := sha256.Sum256(append([]byte("manifests\n"), d.AdditionalParams...))
	return hex.EncodeToString(sum[:16])
}

// uses is the desired state in force and the files of an instance, nil where there
// is no instance.
func (s *Service) uses(instanceID string) (d *desired, files []store.File, err error) {
	err = s.Store.View(func(tx *store.Tx) error {
		inst, found, err := tx.Instances().Get(instanceID)
		if err == nil && found {
			d, err = s.newUnit(tx, inst).desired()
		}
		if err != nil {
			return err
		}
		files, err = tx.Files().Prefix(store.InstancePrefix(instanceID))
		return err
	})
	return d, files, err
}

// record keeps the verdicts with the files whose content is still the one judged.
func (u *unit) record(verdicts map[string]verdict, judged string) error {
	for path, v := range verdicts {
		key := store.FileKey(u.inst.ID, path)
		f, found, err := u.tx.Files().Get(key)
		if err != nil {
			return err
		}
		if !found || f.SHA256 != v.sha256 || f.Judged == judged {
			continue
		}
		f.Faults, f.Warnings, f.Manifests, f.Judged, f.Before = v.faults, v.warnings, v.manifests, judged, nil
		u.changed()
		if err := u.tx.Files().Put(key, f); err != nil {
			return err
		}
	}
	return nil
}
