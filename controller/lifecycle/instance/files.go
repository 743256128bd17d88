package instance

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
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
	var failed []store.File
	for stale := true; stale; {
		d, files, architectures, err := s.uses(instanceID)
		if err != nil || d == nil || d.Params == nil {
			return err
		}
		validatedFor := desired.ValidatedFor(d.Desired)
		files = slices.DeleteFunc(files, func(f store.File) bool { return f.Lost || !those(f, validatedFor) })
		if len(files) == 0 {
			return nil
		}
		results, err := s.Files.Validate(d.Params, files, architectures)
		if err != nil && !slices.EqualFunc(files, failed, sameContent) {
			failed = files
			continue // an upload may have replaced a file meanwhile, whose content is gone then
		}
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

func sameContent(a, b store.File) bool { return a.Path == b.Path && a.SHA256 == b.SHA256 }

// uses is the desired state in force, the files of an instance and the architectures that its
// nodes have said they have; no state if there is no instance.
func (s *Service) uses(instanceID string) (d *desired.State, files []store.File, architectures []string, err error) {
	err = s.Runner.Peek(instanceID, func(t *tx.Tx, found bool) (err error) {
		if found {
			d, err = desired.InForce(t)
		}
		if err != nil {
			return err
		}
		if found {
			if architectures, err = architecturesOf(t, d.Topology); err != nil {
				return err
			}
		}
		files, err = t.Files().Prefix(store.InstancePrefix(instanceID))
		return err
	})
	return d, files, architectures, err
}

func architecturesOf(t *tx.Tx, topology *api.Topology) ([]string, error) {
	if topology == nil {
		return nil, nil
	}
	var list []string
	for _, server := range topology.Servers {
		n, _, err := t.Nodes().Get(server.ID)
		if err != nil {
			return nil, err
		}
		if n.Agent != nil && n.Agent.Architecture != "" && !slices.Contains(list, n.Agent.Architecture) {
			list = append(list, n.Agent.Architecture)
		}
	}
	return list, nil
}
