// Package build builds programs of nodehitch with a version, for tests that need several
// builds. A further build is a copy of one with another version in its file.
package build

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The programs, for Compile.
const (
	Controller = "github.com/nodehitch/nodehitch/controller"
	Agent      = "github.com/nodehitch/nodehitch/agent"
	Hitchctl   = "github.com/nodehitch/nodehitch/controller/hitchctl"
)

// Compile builds a program of a version into a file, without cgo, so that under the race detector
// too what is compiled is in Go's cache. more are further flags of the linker.
func Compile(t testing.TB, to, program, version string, more ...string) {
	t.Helper()
	flags := append([]string{"-s -w -X github.com/nodehitch/nodehitch/shared/version.stamp=" + string(stamp(version))}, more...)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", strings.Join(flags, " "), "-o", to, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Of returns a build with another version, which must be as long.
func Of(t testing.TB, program []byte, version, other string) []byte {
	t.Helper()
	if len(version) != len(other) || !bytes.Contains(program, stamp(version)) {
		t.Fatalf("a program of version %s is expected, and another version as long as that; got %s", version, other)
	}
	return bytes.ReplaceAll(program, stamp(version), stamp(other))
}

// stamp is how a version stands in a program.
func stamp(v string) []byte { return []byte("nodehitch-version<" + v + ">") }

// Put puts a program in the place of another in one step, as controllers expect it of their
// agentDirectory.
func Put(t testing.TB, path string, program []byte) {
	t.Helper()
	fresh := path + ".new"
	if err := errors.Join(os.WriteFile(fresh, program, 0o755), os.Rename(fresh, path)); err != nil {
		t.Fatal(err)
	}
}
