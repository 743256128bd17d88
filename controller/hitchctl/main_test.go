package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hitchctl": main, "exitcode": exitCode})
}

// exitCode is a command for scripts: `exitcode N command…` succeeds if the
// command ends with N. What it prints is passed on.
func exitCode() {
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(context.Background(), os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		fmt.Fprintf(os.Stderr, "exit code %d, want %d\n", got, want)
		os.Exit(1)
	}
}

// What needs no controller. Each script is one situation.
func TestOffline(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script/offline", Setup: samples, RequireExplicitExec: true})
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
