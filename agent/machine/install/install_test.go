package install

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine has a binary and a systemd that records its commands, and fails where
// broken says so.
func machine(t *testing.T, broken string) (Installer, *[]string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "nodehitch-agent")
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var calls []string
	return Installer{UnitDirectory: dir, Packaged: filepath.Join(dir, "packaged"), Binary: binary, Out: new(bytes.Buffer), Systemctl: func(_ context.Context, args ...string) error {
		calls = append(calls, strings.Join(args, " "))
		if args[0] == broken {
			return errors.New("broken")
		}
		return nil
	}}, &calls
}

func TestInstallTwice(t *testing.T) {
	i, calls := machine(t, "")
	var first os.FileInfo
	for round, enable := range []string{"enable --no-reload ", "enable "} {
		want := []string{enable + Unit, "restart " + Unit}
		*calls = nil
		if err := i.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*calls, want) {
			t.Errorf("round %d: %q", round, *calls)
		}
		info, err := os.Stat(filepath.Join(i.UnitDirectory, Unit))
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Fatalf("round %d: %v, %v", round, info, err)
		}
		if round > 0 && !os.SameFile(first, info) {
			t.Error("the same unit was written again")
		}
		first = info
	}
}

// A unit in /etc would hide the package's for ever.
func TestThePackagesUnitIsUsed(t *testing.T) {
	i, calls := machine(t, "")
	if err := os.WriteFile(i.Packaged, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"enable --no-reload " + Unit, "restart " + Unit}; !slices.Equal(*calls, want) {
		t.Errorf("%q, want %q", *calls, want)
	}
	if _, err := os.Lstat(filepath.Join(i.UnitDirectory, Unit)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a unit was written: %v", err)
	}
}

// What cloud-init wrote may not be on disk yet, and nothing writes it again after the unit is
// enabled.
func TestNothingIsEnabledBeforeWhatItNeedsLasts(t *testing.T) {
	i, calls := machine(t, "")
	loop := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	i.Given = []string{loop}
	if err := i.Install(t.Context()); err == nil || len(*calls) > 0 {
		t.Errorf("got %v and %q, want an error and nothing enabled", err, *calls)
	}
	i.Given = []string{filepath.Join(t.TempDir(), "absent")}
	if err := i.Install(t.Context()); err != nil {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// An enabled unit marks the machine as installed (the bootstrap of user_data does not run
// again), so the command must fail if enabling fails.
func TestFailuresOfSystemdAreReported(t *testing.T) {
	i, calls := machine(t, "enable")
	if err := i.Install(t.Context()); err == nil || len(*calls) != 1 {
		t.Errorf("enabling failed: got %v after %q", err, *calls)
	}
	i, _ = machine(t, "restart")
	if err := i.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "journalctl") {
		t.Errorf("starting failed: got %v", err)
	}
}

// After an upgrade the unit is brought along: systemd reads it, and nothing is restarted.
func TestTheUnitFollowsTheAgent(t *testing.T) {
	i, calls := machine(t, "")
	path := filepath.Join(i.UnitDirectory, Unit)
	if err := os.WriteFile(path, []byte("of an older agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"daemon-reload"}, nil} {
		*calls = nil
		if err := i.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, unitFile) || !slices.Equal(*calls, want) {
			t.Errorf("%q, %v", *calls, err)
		}
	}
}

func TestBinaryHasToBeInPlace(t *testing.T) {
	i, calls := machine(t, "")
	i.Binary += "-not"
	if err := i.Install(t.Context()); err == nil || len(*calls) != 0 {
		t.Errorf("got %v after %q", err, *calls)
	}
}

func TestSystemdUnderstandsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	for binary, unit := range map[string][]byte{Binary: unitFile, PackagedBinary: PackagedUnit("/etc/nodehitch/agent.yaml")} {
		path := filepath.Join(t.TempDir(), Unit)
		if !bytes.Contains(unit, []byte("ExecStart="+binary+" run\n")) {
			t.Errorf("the unit does not start %s:\n%s", binary, unit)
		}
		// The binary need not be installed where the test runs.
		text := bytes.ReplaceAll(unit, []byte(binary), []byte("/bin/true"))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", path).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte(Unit)) {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// What is in the package belongs to the package manager.
func TestThePackagedUnitNamesNothingUnpackaged(t *testing.T) {
	unit := PackagedUnit("/etc/nodehitch/agent.yaml")
	if bytes.Contains(unit, []byte("/usr/local")) || !bytes.Contains(unit, []byte("\nConditionPathExists=/etc/nodehitch/agent.yaml\n")) {
		t.Errorf("the unit is\n%s", unit)
	}
}
