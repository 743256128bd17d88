package instance

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/desired"
	"github.com/nodehitch/nodehitch/controller/packagefile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/tx"
)

// FileStored validates a package file that has just been recorded, for every use that
// the parameters make of it, and the documents that name it follow. A file of an
// instance that does not exist yet is validated when the instance comes.
func (s *Service) FileStored(ctx context.Context, instanceID, path string) error {
	return s.validate(ctx, instanceID, func(f store.File, _ string) bool { return f.Path == path })
}

// validateLeft validates the files whose validation a restart has cut off, and those for
// faults that this controller finds and the one before did not.
func (s *Service) validateLeft(ctx context.Context, instanceID string) error {
	return s.validate(ctx, instanceID, func(f store.File, validatedFor string) bool { return f.ValidatedFor != validatedFor })
}

// validate validates files and records the results of all of them at once, or the
// documents would lose what the others are for in between.
func (s *Service) validate(ctx context.Context, instanceID string, those func(f store.File, validatedFor string) bool) error {
	for stale := true; stale; {
		d, files, err := s.uses(instanceID)
		if err != nil || d == nil || d.Params == nil {
			return err
		}
		validatedFor := desired.ValidatedFor(d.Desired)
		files = slices.DeleteFunc(files, func(f store.File) bool { return !those(f, validatedFor) })
		if len(files) == 0 {
			return nil
		}
		results, err := s.Files.Validate(d.Params, files)
		if err != nil {
			return err
		}
		err = s.Runner.Update(ctx, instanceID, func(t *tx.Tx) error {
			now, err := desired.Record(t)
			if err != nil {
				return err
			}
			if stale = desired.ValidatedFor(now) != validatedFor; stale {
				return nil // other parameters came meanwhile: validate again for those
			}
			if err := packagefile.Record(t, results, validatedFor); err != nil {
				return err
			}
			return s.Reconciler.ReconcileAndFinish(t) // documents name the content
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// uses is the desired state in force and the files of an instance; no state if there
// is no instance.
func (s *Service) uses(instanceID string) (d *desired.State, files []store.File, err error) {
	err = s.Runner.Peek(instanceID, func(t *tx.Tx, found bool) (err error) {
		if found {
			d, err = desired.InForce(t)
		}
		if err != nil {
			return err
		}
		files, err = t.Files().Prefix(store.InstancePrefix(instanceID))
		return err
	})
	return d, files, err
}
