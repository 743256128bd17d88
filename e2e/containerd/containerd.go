// Package containerd builds containerds of several versions from their Go modules, for
// tests of what each makes of its configuration. They are statically linked and have no
// snapshotters that need cgo.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// Versions are the versions that are built; versions/<version>/go.mod has the patch.
var Versions = []string{"1.6", "1.7", "2.0", "2.1", "2.4"}

var buildArguments = []string{
	"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
	"-tags", "no_btrfs no_devmapper no_zfs no_aufs",
}

func moduleDir(version string) string {
	return filepath.Join(sourcetree.Path("e2e/containerd/versions"), version)
}

// name and key of a version in the cache of images.
func name(version string) string { return "containerd-" + version }

func key(version string) (string, error) {
	parts := []string{runtime.GOOS, runtime.GOARCH, fmt.Sprintf("%q", buildArguments)}
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(moduleDir(version), file))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(content))
	}
	return image.Key(parts...), nil
}

// Build builds all versions that are neither installed nor in the cache (empty means
// $NODEHITCH_CACHE or image.DefaultCache): some minutes of two processors each. Log receives
// progress.
func Build(ctx context.Context, cache string, log func(format string, args ...any)) error {
	open, err := image.OpenCache(cache, log)
	if err != nil {
		return err
	}
	installed, _ := Installed()
	for _, version := range Versions {
		if version == installed {
			continue // Program gives it
		}
		k, buildErr := key(version)
		if buildErr == nil {
			_, buildErr = open.Get(ctx, name(version), k, func(ctx context.Context, dir string) error { return build(ctx, version, dir, log) })
		}
		err = errors.Join(err, buildErr)
	}
	return errors.Join(err, open.Close())
}

func build(ctx context.Context, version, dir string, log func(string, ...any)) error {
	began := time.Now()
	path := "github.com/containerd/containerd/cmd/containerd"
	if !strings.HasPrefix(version, "1.") {
		path = "github.com/containerd/containerd/v2/cmd/containerd"
	}
	cmd := exec.CommandContext(ctx, "go", append(buildArguments, "-o", filepath.Join(dir, "containerd"), path)...)
	cmd.Dir = moduleDir(version)
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building containerd %s: %w:\n%s", version, err, out)
	}
	log("image %s: built in %.0f s", name(version), time.Since(began).Seconds())
	return nil
}

// Program returns a containerd of that version (major.minor): the one in the cache, else the
// installed one if it is of that version. Without one it skips the test and prints how to
// build it, or fails it if NODEHITCH_LAB=required.
func Program(t testing.TB, version string) string {
	t.Helper()
	k, err := key(version)
	if err != nil {
		t.Fatal(err)
	}
	open, err := image.OpenCache("", func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	})
	dir, found, err := open.Find(name(version), k)
	if err != nil {
		t.Fatal(err)
	}
	if found {
		return filepath.Join(dir, "containerd")
	}
	if installed, path := Installed(); installed == version {
		return path
	}
	refuse := t.Skipf
	if os.Getenv("NODEHITCH_LAB") == "required" {
		refuse = t.Fatalf
	}
	refuse("containerd %s is not built: run `make containerd`, which takes some minutes, once", version)
	return ""
}

var versionPattern = regexp.MustCompile(` v?(\d+\.\d+)\.`)

// Installed is the version (major.minor) and the path of this machine's containerd, or
// nothing. The program is asked once: that takes it a tenth of a second.
var Installed = sync.OnceValues(func() (version, path string) {
	path, err := exec.LookPath("containerd")
	if err != nil {
		return "", ""
	}
	said, err := exec.CommandContext(context.Background(), path, "--version").Output()
	if found := versionPattern.FindSubmatch(said); err == nil && found != nil {
		return string(found[1]), path
	}
	return "", ""
})
