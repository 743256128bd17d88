package lcm

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// files are the instance's package files by their path in the package.
func (u *unit) files() (map[string]store.File, error) {
	list, err := u.tx.Files().Prefix(store.InstancePrefix(u.inst.ID))
	files := make(map[string]store.File, len(list))
	for _, f := range list {
		files[f.Path] = f
	}
	return files, err
}

// missingFiles are the paths that the parameters name and that have not been
// uploaded, each once, in the parameters' order.
func missingFiles(p *params.Params, files map[string]store.File) []string {
	list := []string{}
	for _, use := range params.Files(p, atParams) {
		if _, ok := files[use.Path]; !ok && !slices.Contains(list, use.Path) {
			list = append(list, use.Path)
		}
	}
	return list
}

// requireFiles refuses an operation until every file is there and valid.
func (u *unit) requireFiles(d *desired) error {
	files, err := u.files()
	if err != nil {
		return err
	}
	var faults fault.List
	var manifests []params.Manifest
	for _, use := range params.Files(d.params, atParams) {
		f, ok := files[use.Path]
		if !ok {
			faults = append(faults, fault.Fault{Pointer: use.Pointer, Message: fmt.Sprintf(
				"%s has not been uploaded: PUT /v1/vnf_instances/%s/files/%s", use.Path, u.inst.ID, use.Path)})
			continue
		}
		if f.Judged != judgedFor(d.Desired) {
			faults = append(faults, fault.Fault{Pointer: use.Pointer, Message: use.Path + " is still being checked; try again in a moment"})
			continue
		}
		faults = append(faults, atUse(f.Faults, use)...)
		if use.Use == params.UseManifest && len(f.Faults) == 0 {
			content, err := u.content(f.SHA256)
			if err != nil {
				return err
			}
			manifests = append(manifests, params.Manifest{Use: use, Content: content})
		}
	}
	faults = append(faults, params.CheckManifests(manifests).Faults...)
	if len(faults) == 0 {
		return nil
	}
	p := api.NewProblem(api.ProblemFilesMissing, "upload the package files that are named, then post the operation again")
	p.InvalidParams = faults
	return p
}

// atUse is the faults of a file that belong to one of its uses.
func atUse(faults fault.List, use params.FileUse) fault.List {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault.Fault) bool { return f.Pointer != use.Pointer })
}
