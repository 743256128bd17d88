package packagefile

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// Result is what is known of the content of one package file. It holds for this
// content and these parameters only.
type Result struct {
	sha256           string
	faults, warnings fault.List
	manifests        []store.Manifest
}

// Validate reads the content of files for every use that the parameters make of them,
// and returns what it found by path. It runs outside of any transaction: an image may
// be large. architectures are those of the instance's nodes, as far as they are known.
func (v *Validator) Validate(p *params.Params, files []store.File, architectures []string) (map[string]Result, error) {
	results := make(map[string]Result)
	for _, f := range files {
		r := Result{sha256: f.SHA256}
		for _, use := range params.Files(p, desired.AtParams) {
			if use.Path != f.Path {
				continue
			}
			report, err := v.checkUse(use, f.SHA256, p)
			if err != nil {
				return nil, err
			}
			switch has, want := strings.Join(report.Architectures, ", "), strings.Join(architectures, ", "); {
			case !foreign(report.Architectures, architectures):
			case use.Use == params.UseImage:
				report.Faults = append(report.Faults, fault.Fault{Pointer: use.Pointer, Message: fmt.Sprintf(
					"%s holds an image for %s; expected one for the node's architecture, %s", use.Path, has, want)})
			default: // another archive may be for the nodes
				report.Warnings = append(report.Warnings, fault.Fault{Pointer: use.Pointer, Message: fmt.Sprintf(
					"%s is for %s, and the nodes are %s", use.Path, has, want)})
			}
			r.faults, r.warnings = append(r.faults, report.Faults...), append(r.warnings, report.Warnings...)
			if use.Use == params.UseManifest && len(report.Faults) == 0 && r.manifests == nil {
				if r.manifests, err = v.manifests(f.SHA256); err != nil {
					return nil, err
				}
			}
		}
		results[f.Path] = r
	}
	return results, nil
}

// foreign says that an image is for none of the nodes.
func foreign(image, nodes []string) bool {
	return len(image) > 0 && len(nodes) > 0 && !slices.ContainsFunc(image, func(a string) bool { return slices.Contains(nodes, a) })
}

func (v *Validator) checkUse(use params.FileUse, sha256 string, p *params.Params) (params.Report, error) {
	content, err := v.Blobs.Open(sha256)
	if err != nil {
		return params.Report{}, fmt.Errorf("checking the package file %s: %w", use.Path, err)
	}
	defer content.Close()
	defer takeTurn(use.Use)()
	return params.CheckFile(use, content, p, v.Now())
}

// manifests are the objects of a manifest in which no fault was found.
func (v *Validator) manifests(sha256 string) ([]store.Manifest, error) {
	defer takeTurn(params.UseManifest)()
	content, err := v.content(sha256)
	if err != nil {
		return nil, err
	}
	volumes, err := params.ReadManifest(content)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	list := make([]store.Manifest, len(volumes))
	for i, volume := range volumes {
		list[i] = store.Manifest{Name: volume.Name, Object: volume.Object}
	}
	return list, nil
}

// content reads a manifest, which CheckFile has found to be small.
func (v *Validator) content(sha256 string) ([]byte, error) {
	f, err := v.Blobs.Open(sha256)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	defer f.Close()
	return io.ReadAll(f)
}
