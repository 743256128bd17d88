// Package python lays out what a package installs of packaging/tacker: the modules, and what
// tells Python that they are installed. A wheel has the same.
package python

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Write writes the modules and their dist-info into folder, which becomes a folder of
// Python's path. root is that of the source tree, version the package's.
func Write(root, folder, version string) error {
	version = asPython(version)
	source := filepath.Join(root, "packaging/tacker")
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: nodehitch-tacker\nVersion: %s\n"+
		"Summary: Tacker's management driver for nodehitch, and a client of nodehitch's API\nLicense: Apache-2.0\nRequires-Python: >=3.8\n", version)
	info := filepath.Join(folder, distribution(version)+".dist-info")
	points, err := os.ReadFile(filepath.Join(source, "entry_points.txt"))
	return errors.Join(err,
		copyModules(filepath.Join(source, "nodehitch"), filepath.Join(folder, "nodehitch")),
		copyModules(filepath.Join(source, "shim"), filepath.Join(folder, "nodehitch/tacker/shim")),
		write(filepath.Join(info, "METADATA"), []byte(metadata)),
		write(filepath.Join(info, "entry_points.txt"), points),
		write(filepath.Join(info, "top_level.txt"), []byte("nodehitch\n")),
	)
}

// Wheel packs what Write has written into tree as a wheel, and returns its name. pip installs it
// without building anything, and unpacking it is enough where there is no pip.
func Wheel(tree, folder, version string, at time.Time) (name string, err error) {
	named := distribution(asPython(version))
	name = named + "-py3-none-any.whl"
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	archive, record := zip.NewWriter(file), strings.Builder{}
	add := func(path string, content []byte) error {
		digest := sha256.Sum256(content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(digest[:]), len(content))
		header := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(0o644)
		entry, err := archive.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(content)
		}
		return err
	}
	err = fs.WalkDir(os.DirFS(tree), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(tree, path))
		return errors.Join(err, add(path, content))
	})
	info := named + ".dist-info/"
	err = errors.Join(err, add(info+"WHEEL", []byte("Wheel-Version: 1.0\nGenerator: nodehitch\nRoot-Is-Purelib: true\nTag: py3-none-any\n")))
	record.WriteString(info + "RECORD,,\n")
	return name, errors.Join(err, add(info+"RECORD", []byte(record.String())), archive.Close(), file.Close())
}

func distribution(version string) string { return "nodehitch_tacker-" + version }

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
