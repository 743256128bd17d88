package lcm

import (
	"fmt"
	"io"

	"github.com/nodehitch/nodehitch/controller/store"
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
