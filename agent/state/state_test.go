package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

func open(t *testing.T) *state.Directory {
	t.Helper()
	d, err := state.Open(filepath.Join(t.TempDir(), "lib", "agent"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOnlyTheOwnerReadsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := state.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write("x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o700, d.Path("x"): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestSameContentIsNotWritten(t *testing.T) {
	d := open(t)
	if err := d.Write("x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(d.Path("x"))
	if err := d.Write("x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(d.Path("x"))
	if !os.SameFile(before, after) {
		t.Error("the file was replaced")
	}
	if err := d.Write("x", []byte("2")); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Read("x"); err != nil || string(got) != "2" {
		t.Errorf("got %q, %v", got, err)
	}
	if left, _ := filepath.Glob(d.Path(".new-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRecordsComeBack(t *testing.T) {
	d := open(t)
	if m, err := d.Machine(); m != nil || err != nil {
		t.Errorf("before: %v, %v", m, err)
	}
	if a, err := d.Applied(); a != nil || err != nil {
		t.Errorf("before: %v, %v", a, err)
	}
	machine := state.Machine{NodeID: "n", Source: "DMI", ProductUUID: "n"}
	applied := api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 3, Storage: &api.StorageSection{}}
	if err := errors.Join(d.SaveMachine(machine), d.SaveApplied(&applied)); err != nil {
		t.Fatal(err)
	}
	m, err1 := d.Machine()
	a, err2 := d.Applied()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(machine, *m) + cmp.Diff(applied.Digest(), a.Digest()); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedRecordIsAnErrorThatSaysWhatToDo(t *testing.T) {
	d := open(t)
	if err := d.Write("last-known-good.json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Applied(); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v", err)
	}
}

func TestOneProcessChangesTheMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "agent.lock")
	first, err := state.TakeLock(path, "nodehitch-agent run")
	if err != nil {
		t.Fatal(err)
	}
	_, err = state.TakeLock(path, "nodehitch-agent apply")
	var locked *state.Locked
	if !errors.As(err, &locked) || !strings.HasPrefix(locked.Holder, "nodehitch-agent run (pid ") {
		t.Errorf("got %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := state.TakeLock(path, "nodehitch-agent apply")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}
