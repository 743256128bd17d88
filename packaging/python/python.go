// Package python lays out what a package installs of packaging/tacker: the modules, and what
// tells Python that they are installed.
package python

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the modules and their dist-info into folder, which becomes a folder of
// Python's path. root is that of the source tree, version the package's.
func Write(root, folder, version string) error {
	version = asPython(version)
	source := filepath.Join(root, "packaging/tacker")
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: nodehitch-tacker\nVersion: %s\n"+
		"Summary: Tacker's management driver for nodehitch, and a client of nodehitch's API\nLicense: Apache-2.0\nRequires-Python: >=3.8\n", version)
	info := filepath.Join(folder, "nodehitch_tacker-"+version+".dist-info")
	points, err := os.ReadFile(filepath.Join(source, "entry_points.txt"))
	return errors.Join(err,
		copyModules(filepath.Join(source, "nodehitch"), filepath.Join(folder, "nodehitch")),
		copyModules(filepath.Join(source, "shim"), filepath.Join(folder, "nodehitch/tacker/shim")),
		write(filepath.Join(info, "METADATA"), []byte(metadata)),
		write(filepath.Join(info, "entry_points.txt"), points),
		write(filepath.Join(info, "top_level.txt"), []byte("nodehitch\n")),
	)
}

// asPython is a version of a package as Python writes it (PEP 440), in the same order:
// 1.2.0~rc.1 is 1.2.0rc1, and the build 0.0.0~20261123.784fea1 is 0.0.0.dev20261123+784fea1.
func asPython(version string) string {
	version = strings.Replace(version, "~rc.", "rc", 1)
	release, build, found := strings.Cut(version, "~")
	if !found {
		return version
	}
	return release + ".dev" + strings.Replace(build, ".", "+", 1)
}

// copyModules copies what Python reads, and nothing that it has written.
func copyModules(from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".py") && entry.Name() != "py.typed" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(from, path))
		return errors.Join(err, write(filepath.Join(to, path), text))
	})
}

func write(path string, text []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644))
}
