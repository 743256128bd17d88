// Package npm installs packages of the npm registry for tests, as a lock file names them, outside of
// the checkout.
package npm

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// Install returns a copy of a folder with a package-lock.json, in which its packages are installed.
// Without Node.js, npm or its registry the test is skipped, or fails if NODEHITCH_LAB=required.
func Install(t testing.TB, folder string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			refuse(t, "%v: install Node.js 18 or later, with npm", err)
		}
	}
	npm := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "npm", args...)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	cache := filepath.Join(cmp.Or(os.Getenv("NODEHITCH_CACHE"), image.DefaultCache), "npm")
	out, err := npm("ci", "--cache", cache, "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	if err == nil {
		return dir
	}
	if ping, pingErr := npm("ping"); pingErr != nil {
		refuse(t, "the npm registry does not answer: %v\n%s", pingErr, ping)
	}
	t.Fatalf("npm ci: %v\n%s", err, out)
	return ""
}

// refuse ends the test where this machine cannot run it.
func refuse(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("NODEHITCH_LAB") == "required" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
