package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// vendored is a file of somebody else's in the source tree that is embedded into a program: the
// build information does not know it.
type vendored struct {
	File        string
	SHA256      string `json:"sha256"`
	License     string
	LicenseFile string
	Package     string // of npm
	Version     string
	From        string
	Integrity   string
}

// vendoredIn are the folders with such files, by the program that embeds them.
var vendoredIn = map[string]string{"nodehitch-controller": "controller/ui/page/assets"}

// vendoredBy are the files that a program embeds, by the list beside them.
func vendoredBy(program string) ([]vendored, error) {
	folder, some := vendoredIn[program]
	if !some {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(folder, "vendored.json"))
	if err != nil {
		return nil, err
	}
	var list []vendored
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s/vendored.json: %w", folder, err)
	}
	for i, v := range list {
		list[i].LicenseFile = filepath.Join(folder, v.LicenseFile)
		digest, err := digestOf(filepath.Join(folder, v.File))
		if err != nil {
			return nil, err
		}
		if digest != v.SHA256 {
			return nil, fmt.Errorf("%s/%s has the SHA-256 %s, and vendored.json says %s", folder, v.File, digest, v.SHA256)
		}
	}
	return list, nil
}
