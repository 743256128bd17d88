package release

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const suite = "release"

// release is what `make package` has written into dist/, or `make package-lab` for one
// architecture.
type release struct {
	dist, version string
}

func built(t *testing.T) release {
	t.Helper()
	need(t, "dpkg-deb", "dpkg")
	need(t, "rpm", "rpm")
	const dist = "../../dist"
	boms, err := filepath.Glob(filepath.Join(dist, "nodehitch_*.spdx.json"))
	if err != nil || len(boms) != 1 {
		t.Fatalf("there is no release in %s, run `make package`: %q, %v", dist, boms, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(boms[0]), "nodehitch_"), ".spdx.json")
	return release{dist, version}
}

// deb is the path of a package.
func (r release) deb(name, arch string) string {
	return filepath.Join(r.dist, name+"_"+r.version+"-1_"+arch+".deb")
}

// complete says that the release is for all architectures.
func (r release) complete() bool {
	_, err := os.Stat(r.deb("hitchctl", "arm64"))
	return err == nil
}

// packages are the paths of the packages of a format, at least four.
func (r release) packages(t *testing.T, format string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.dist, "*."+format))
	if err != nil || len(paths) < 4 {
		t.Fatalf("the packages of the format %s are %q, %v", format, paths, err)
	}
	return paths
}

// need skips the test where a program is missing. CI has all.
func need(t *testing.T, program, debianPackage string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("NODEHITCH_LAB") == "required" {
		t.Fatalf("there is no %s: install the package %s", program, debianPackage)
	}
	t.Skipf("there is no %s: install the package %s", program, debianPackage)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, stderr.String())
	}
	return string(out)
}

// file is the content of a file of a deb.
func file(t *testing.T, deb, path string) []byte {
	t.Helper()
	var content []byte
	eachFile(t, deb, func(h *tar.Header, body io.Reader) {
		if strings.TrimPrefix(h.Name, ".") == path {
			var err error
			if content, err = io.ReadAll(body); err != nil {
				t.Fatal(err)
			}
		}
	})
	if content == nil {
		t.Fatalf("%s has no %s", filepath.Base(deb), path)
	}
	return content
}

// eachFile calls visit with each entry of a deb.
func eachFile(t *testing.T, deb string, visit func(*tar.Header, io.Reader)) {
	t.Helper()
	entries := tar.NewReader(strings.NewReader(run(t, "dpkg-deb", "--fsys-tarfile", deb)))
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(h, entries)
	}
}
