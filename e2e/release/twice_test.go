package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/breaks"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// The tree at another path, as a clone and as a copy without git's folder, compiled anew with
// nothing in Go's cache, by somebody with another umask, language and time zone.
func TestBuiltTwice(t *testing.T) {
	c := results.Begin(t, suite, "built twice", "another copy of the tree, with an empty cache and another environment, gives the same bytes")
	results.LongOnly(t)
	first := makePackages(t, copied(t))
	before := syscall.Umask(0o077)
	source := copied(t)
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "--message=x"}, {"tag", "v7.8.9"}} {
		run(t, "git", append([]string{"-C", source}, args...)...)
	}
	second := makePackages(t, source, "GOCACHE="+t.TempDir(), "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8")
	syscall.Umask(before)
	if !bytes.Equal(first, second) {
		t.Errorf("the first build gave\n%sthe second\n%s", first, second)
	}
	c.Figure("the same", "%d files", bytes.Count(first, []byte("\n")))
}

// copied is a copy of the tree, which has no folder of git's.
func copied(t *testing.T) (source string) {
	t.Helper()
	source = t.TempDir()
	if err := breaks.Copy(t.Context(), "../..", source); err != nil {
		t.Fatal(err)
	}
	return source
}

// makePackages makes the packages in a copy of the tree and returns their checksums.
func makePackages(t *testing.T, source string, environment ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "package", "VERSION=v7.8.9", "SOURCE_DATE_EPOCH=1767225600")
	cmd.Dir, cmd.Env = source, append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	sums, err := os.ReadFile(filepath.Join(source, "dist", "SHA256SUMS"))
	if err != nil || !bytes.Contains(sums, []byte("  hitchctl_7.8.9-1_arm64.deb\n")) {
		t.Fatalf("%v\n%s", err, sums)
	}
	return sums
}
