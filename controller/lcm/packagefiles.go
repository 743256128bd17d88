package lcm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// verdict is what is known of the content of one package file. It holds for this
// content and these parameters only.
type verdict struct {
	sha256           string
	faults, warnings fault.List
	manifests        []store.Manifest
}

// FileStored looks at a package file that has just been recorded: its content is
// checked for every use that the parameters make of it, and the documents that name
// it follow. A file of an instance that
// does not exist yet is checked when the instance comes.
func (s *Service) FileStored(ctx context.Context, instanceID, path string) error {
	for stale := true; stale; {
		d, files, err := s.uses(instanceID)
		if err != nil || d == nil || d.params == nil {
			return err
		}
		verdicts, err := s.judge(d.params, slices.DeleteFunc(files, func(f store.File) bool { return f.Path != path }))
		if err != nil {
			return err
		}
		err = s.update(ctx, instanceID, func(u *unit) error {
			now, err := u.desired()
			if err != nil {
				return err
			}
			if stale = judgedFor(now.Desired) != judgedFor(d.Desired); stale {
				return nil // other parameters came meanwhile: look again with those
			}
			if err := u.record(verdicts, judgedFor(d.Desired)); err != nil {
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

// judgeLeft checks the files whose check a restart has cut off.
func (s *Service) judgeLeft(ctx context.Context, instanceID string) error {
	d, files, err := s.uses(instanceID)
	if err != nil || d == nil {
		return err
	}
	for _, f := range files {
		if f.Judged == judgedFor(d.Desired) {
			continue
		}
		if err := s.FileStored(ctx, instanceID, f.Path); err != nil {
			return err
		}
	}
	return nil
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

// judge reads the files. It runs outside of any transaction: an image may be large.
func (s *Service) judge(p *params.Params, files []store.File) (map[string]verdict, error) {
	verdicts := make(map[string]verdict)
	for _, f := range files {
		v := verdict{sha256: f.SHA256}
		for _, use := range params.Files(p, atParams) {
			if use.Path != f.Path {
				continue
			}
			report, err := s.checkUse(use, f.SHA256, p)
			if err != nil {
				return nil, err
			}
			v.faults, v.warnings = append(v.faults, report.Faults...), append(v.warnings, report.Warnings...)
			if use.Use == params.UseManifest && len(report.Faults) == 0 && v.manifests == nil {
				if v.manifests, err = s.manifests(f.SHA256); err != nil {
					return nil, err
				}
			}
		}
		verdicts[f.Path] = v
	}
	return verdicts, nil
}

func (s *Service) checkUse(use params.FileUse, sha256 string, p *params.Params) (params.Report, error) {
	content, err := s.Files.Open(sha256)
	if err != nil {
		return params.Report{}, fmt.Errorf("checking the package file %s: %w", use.Path, err)
	}
	defer content.Close()
	return params.CheckFile(use, content, p, s.Now())
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

func (u *unit) files() (map[string]store.File, error) {
	list, err := u.tx.Files().Prefix(store.InstancePrefix(u.inst.ID))
	files := make(map[string]store.File, len(list))
	for _, f := range list {
		files[f.Path] = f
	}
	return files, err
}

// planned is what the plan for a desired state has to know of the package files.
func (u *unit) planned(d store.Desired) (map[string]plan.File, error) {
	files, err := u.files()
	if err != nil {
		return nil, err
	}
	known := make(map[string]plan.File, len(files))
	for path, f := range files {
		if f.Judged != judgedFor(d) {
			f.Judged, f.Faults, f.Manifests = "", nil, nil // what was found then says nothing of these parameters
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

// manifests are the objects of a manifest in which no fault was found.
func (s *Service) manifests(sha256 string) ([]store.Manifest, error) {
	content, err := s.content(sha256)
	if err != nil {
		return nil, err
	}
	volumes, err := params.ReadManifest(content)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	list := make([]store.Manifest, len(volumes))
	for i, v := range volumes {
		list[i] = store.Manifest{Name: v.Name, Object: v.Object}
	}
	return list, nil
}

// content reads a manifest, which CheckFile has found to be small.
func (s *Service) content(sha256 string) ([]byte, error) {
	f, err := s.Files.Open(sha256)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	defer f.Close()
	return io.ReadAll(f)
}
