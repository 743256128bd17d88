package packagefile

import (
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// Require refuses an operation until every file is there and valid.
func (*Validator) Require(t *tx.Tx, d *desired.State) error {
	files, err := Of(t)
	if err != nil {
		return err
	}
	var faults fault.List
	var manifests []params.Manifest
	for _, use := range params.Files(d.Params, desired.AtParams) {
		f, ok := files[use.Path]
		if !ok || f.Lost {
			faults = append(faults, fault.Fault{Pointer: use.Pointer, Message: use.Path + " is missing"})
			continue
		}
		if f.ValidatedFor != desired.ValidatedFor(d.Desired) {
			faults = append(faults, fault.Fault{Pointer: use.Pointer, Message: use.Path + " is still being checked; try again in a moment"})
			continue
		}
		faults = append(faults, atUse(f.Faults, use)...)
		if use.Use == params.UseManifest && len(f.Faults) == 0 {
			manifest := params.Manifest{Use: use}
			for _, m := range f.Manifests {
				manifest.Volumes = append(manifest.Volumes, params.PersistentVolume{Name: m.Name})
			}
			manifests = append(manifests, manifest)
		}
	}
	faults = append(faults, params.CheckManifests(manifests).Faults...)
	if len(faults) == 0 {
		return nil
	}
	p := api.NewProblem(api.ProblemFilesMissing, "upload them, then start the operation again")
	p.InvalidParams = faults
	return p
}

// atUse is the faults of a file that belong to one of its uses.
func atUse(faults fault.List, use params.FileUse) fault.List {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault.Fault) bool { return f.Pointer != use.Pointer })
}
