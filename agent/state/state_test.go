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

const server = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"

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
	if left, _ := filepath.Glob(d.Path(".*.new")); len(left) != 0 {
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
	machine := state.Machine{NodeID: server, Source: "DMI", ProductUUID: server}
	applied := api.NodeConfig{APIVersion: api.NodeConfigV1, Role: api.RoleStorage, Generation: 3, Storage: &api.StorageSection{}}
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

// A record is what was written or an error, even if the file is cut off anywhere or is JSON
// without the members.
func TestDamagedRecordsAreErrors(t *testing.T) {
	d := open(t)
	doc := api.NodeConfig{APIVersion: api.NodeConfigV1, Role: api.RoleStorage, Generation: 3, Storage: &api.StorageSection{}}
	if err := errors.Join(d.SaveMachine(state.Machine{NodeID: server, Source: "DMI"}), d.SaveApplied(&doc),
		d.SaveControllerURLs([]state.ControllerURL{{URL: "https://c.example:8443", Epoch: 3}})); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"machine.json":         func() error { _, err := d.Machine(); return err },
		"last-known-good.json": func() error { _, err := d.Applied(); return err },
		"controllers.json":     func() error { _, err := d.ControllerURLs(); return err },
	} {
		whole, err := d.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		damaged := []string{"null", "{}", "[]", "\x00\x00\x00\x00", `{"nodeId": "../../etc"}`, `{"apiVersion": "nodehitch/v2"}`,
			strings.Replace(string(whole), `"role"`, `"cluster": {}, "role"`, 1) + "}"}
		for n := range len(whole) - 1 { // all but the last line's end
			damaged = append(damaged, string(whole[:n]))
		}
		for _, content := range damaged {
			if err := d.Write(name, []byte(content)); err != nil {
				t.Fatal(err)
			}
			var is *state.Damaged
			if err := read(); !errors.As(err, &is) || !strings.Contains(err.Error(), d.Path(name)) {
				t.Errorf("%s with %q: %v", name, content, err)
			}
		}
	}
}

func TestDirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives a directory away")
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Open(path); err == nil || !strings.Contains(err.Error(), "chown -R root: "+path) {
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
