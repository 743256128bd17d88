// Package packagefile decides which files of its VNF package an instance needs, whether
// their content is valid for every use that the parameters make of it, and which
// content documents may name.
package packagefile

import (
	"os"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/params"
)

// Validator validates package files.
type Validator struct {
	Blobs Blobs
	Now   func() time.Time
}

// Blobs is the content of package files by SHA-256.
type Blobs interface {
	Open(sha256 string) (*os.File, error)
}

// Of is the instance's package files by their path in the package.
func Of(t *tx.Tx) (map[string]store.File, error) {
	list, err := t.Files().Prefix(store.InstancePrefix(t.Instance.ID))
	files := make(map[string]store.File, len(list))
	for _, f := range list {
		files[f.Path] = f
	}
	return files, err
}

// Missing are the paths that the parameters name and that have not been uploaded, or that were
// lost, each once, in the parameters' order.
func Missing(p *params.Params, files map[string]store.File) []string {
	list := []string{}
	for _, use := range params.Files(p, desired.AtParams) {
		if f, ok := files[use.Path]; (!ok || f.Lost) && !slices.Contains(list, use.Path) {
			list = append(list, use.Path)
		}
	}
	return list
}

// Record keeps the results with the files whose content is still the one that was
// validated.
func Record(t *tx.Tx, results map[string]Result, validatedFor string) error {
	for path, r := range results {
		key := store.FileKey(t.Instance.ID, path)
		f, found, err := t.Files().Get(key)
		if err != nil {
			return err
		}
		if !found || f.SHA256 != r.sha256 || f.ValidatedFor == validatedFor {
			continue
		}
		f.Faults, f.Warnings, f.Manifests, f.ValidatedFor, f.Previous = r.faults, r.warnings, r.manifests, validatedFor, nil
		t.Changed()
		if err := t.Files().Put(key, f); err != nil {
			return err
		}
	}
	return nil
}

// ForPlan is what the plan for a desired state has to know of the package files.
func ForPlan(t *tx.Tx, d store.Desired) (map[string]plan.File, error) {
	files, err := Of(t)
	if err != nil {
		return nil, err
	}
	known := make(map[string]plan.File, len(files))
	for path, f := range files {
		if f.ValidatedFor != desired.ValidatedFor(d) {
			f.ValidatedFor, f.Faults, f.Manifests = "", nil, nil // what was found then says nothing of these parameters
		}
		switch usable := f.Usable(); {
		case usable != nil:
			known[path] = planFile(usable)
		case len(f.Faults) > 0:
			known[path] = plan.File{Problem: f.Faults[0].Message}
		default:
			known[path] = plan.File{Problem: path + " is still being checked"}
		}
	}
	return known, nil
}

func planFile(c *store.Content) plan.File {
	f := plan.File{SHA256: c.SHA256, SizeBytes: c.SizeBytes}
	for _, m := range c.Manifests {
		f.Manifests = append(f.Manifests, plan.Manifest(m))
	}
	return f
}
