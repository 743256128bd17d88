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
	"sync"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/mutations"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const (
	suite   = "release"
	version = "v7.8.9"
	// epoch is 2026-01-01.
	epoch = "1767225600"
)

// arches are those of the packages that a run makes: all architectures take minutes.
func arches() string {
	if results.Full() {
		return "amd64 arm64"
	}
	return "amd64"
}

var shared struct {
	once sync.Once
	dist string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dist != "" {
		_ = os.RemoveAll(filepath.Dir(shared.dist))
	}
	os.Exit(code)
}

// built is dist/ of a copy of the tree, made once. The copy has no folder of git's, and what
// is in dist/ of the checkout stays.
func built(t *testing.T) string {
	t.Helper()
	need(t, "dpkg-deb", "dpkg")
	need(t, "rpm", "rpm")
	shared.once.Do(func() {
		var source string
		if source, shared.err = os.MkdirTemp("", "nodehitch-release-"); shared.err == nil {
			shared.dist = filepath.Join(source, "dist")
			shared.err = build(t, source)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.dist
}

// build makes the packages in a copy of the tree at source.
func build(t *testing.T, source string, environment ...string) error {
	t.Helper()
	if err := mutations.Copy(t.Context(), "../..", source); err != nil {
		return err
	}
	cmd := exec.CommandContext(t.Context(), "make", "package", "VERSION="+version, "SOURCE_DATE_EPOCH="+epoch, "ARCHES="+arches())
	cmd.Dir, cmd.Env = source, append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
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

// packagesOf are the paths of the packages of a format, at least one.
func packagesOf(t *testing.T, format string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(built(t), "*."+format))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there is no %s: %v", format, err)
	}
	return paths
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
