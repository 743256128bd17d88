package main

import (
	"context"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// packaged are the files of the packages, and the paths in those that people wrote: units,
// users, directories, and what runs at install and removal.
func packaged(_ context.Context, s *source) (list []string, err error) {
	files, err := filepath.Glob(filepath.Join(s.root, "packaging", "*", "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if info, err := os.Stat(file); err != nil {
			return nil, err
		} else if info.IsDir() || filepath.Ext(file) == ".go" || name == "nfpm" {
			continue
		}
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue // of what is in a VNF package, which has a group of its own
		}
		text, err := s.read(file)
		if err != nil {
			return nil, err
		}
		if filepath.Base(file) != "nfpm.yaml" {
			for _, path := range within.FindAllString(string(text), -1) {
				list = append(list, name+" names "+path)
			}
			continue
		}
		var pkg struct {
			Contents []struct {
				To string `json:"dst"`
			} `json:"contents"`
		}
		if err := yaml.Unmarshal(text, &pkg); err != nil {
			return nil, err
		}
		for _, c := range pkg.Contents {
			list = append(list, name+" has "+c.To)
		}
	}
	return list, nil
}
