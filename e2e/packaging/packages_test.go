package packaging

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/breaks"
)

const (
	suite    = "packaging"
	checkout = "../.."
)

// The packages, by name.
const (
	agentPackage      = "nodehitch-agent"
	agentsPackage     = "nodehitch-agents"
	controllerPackage = "nodehitch-controller"
	cliPackage        = "hitchctl"
	tackerPackage     = "python3-nodehitch-tacker"
)

// release is a folder of packages of one version.
type release struct{ dir string }

// current is this tree's, as `make package` has made it.
func current(t *testing.T) release {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(checkout, "dist"))
	if err != nil {
		t.Fatal(err)
	}
	return release{dir}
}

// next is this tree as a later version, built once for all tests.
func next(t *testing.T) release {
	t.Helper()
	later.build.Do(func() { later.release, later.err = buildLater(t.Context()) })
	if later.err != nil {
		t.Fatal(later.err)
	}
	return later.release
}

var later struct {
	build sync.Once
	release
	err error
}

func buildLater(ctx context.Context) (release, error) {
	source, err := os.MkdirTemp("", "nodehitch-packaging-")
	if err != nil {
		return release{}, err
	}
	r := release{filepath.Join(source, "dist")}
	if err := breaks.Copy(ctx, checkout, source); err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, "make", "package", "VERSION=v99.0.0", "ARCHES=amd64")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return r, fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return r, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if later.dir != "" {
		_ = os.RemoveAll(filepath.Dir(later.dir))
	}
	os.Exit(code)
}

// file is the only file of the release with a name like pattern.
func (r release) file(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %q (%v), expected one file %s: run `make package`", found, err, pattern)
	}
	return found[0]
}

// deb is a Debian package for the machines of the lab.
func (r release) deb(t *testing.T, name string) string {
	t.Helper()
	return r.file(t, name+"_*_"+cmp.Or(architectures[name], "amd64")+".deb")
}

// rpm is such a package in the other format.
func (r release) rpm(t *testing.T, name string) string {
	t.Helper()
	return r.file(t, name+"-*."+map[string]string{"": "x86_64", "all": "noarch"}[architectures[name]]+".rpm")
}

// architectures of packages that are not for one.
var architectures = map[string]string{agentsPackage: "all", tackerPackage: "all"}

// push puts files of the host into a folder of the machine and returns their paths there.
func (m *machine) push(t *testing.T, files ...string) (paths []string) {
	t.Helper()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path := "/srv/packages/" + filepath.Base(file)
		if err := m.Push(t.Context(), path, 0o644, content); err != nil {
			t.Fatal(fmt.Errorf("pushing %s: %w", file, err))
		}
		paths = append(paths, path)
	}
	return paths
}
