package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hitchctl": main})
}

// cmdExitCode is `exitcode N command…`: it succeeds if the command ends with N.
func cmdExitCode(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got := strconv.Itoa(code); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// What needs no controller. Each script is one situation.
func TestOffline(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script/offline", Setup: samples, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exitcode": cmdExitCode}})
}

// samples gives a script $SAMPLES, the specifications' bodies, and $PACKAGE, a VNF
// package with what the first of them names; and a bare environment.
func samples(env *testscript.Env) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("SAMPLES", filepath.Join(root, "shared/params/testdata"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("XDG_CONFIG_HOME", "")
	return os.CopyFS(filepath.Join(env.WorkDir, "package"), os.DirFS("testdata/package"))
}
