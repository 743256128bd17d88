package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// TestMain is also the other process of these tests, which is killed in the middle, and a
// build that tells its version and tests itself.
func TestMain(m *testing.M) {
	if doing := os.Getenv(childVariable); doing != "" {
		// System calls are counted for each thread.
		runtime.LockOSThread()
		if err := child(doing); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "version":
			fmt.Println("nodehitch-agent version", version.Version)
			os.Exit(0)
		case "self-test":
			if config, err := os.ReadFile(os.Args[3]); err != nil || string(config) != "good" {
				fmt.Println("the configuration cannot be read")
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// childVariable says what the other process does, in which folders.
const childVariable = "NODEHITCH_TEST_UPGRADE"

func child(doing string) error {
	what, dirs, _ := strings.Cut(doing, " ")
	dir, stateDir, _ := strings.Cut(dirs, " ")
	s := &scene{dir: dir, state: state.At(stateDir), answers: true}
	switch what {
	case "check":
		return s.guard().Check(context.Background())
	case "verify":
		return verify(context.Background(), filepath.Join(dir, "download"), version.Version, filepath.Join(dir, "config"))
	}
	r, err := load(state.At(filepath.Join(stateDir, "planned")))
	if err != nil {
		return err
	}
	return swap(s.state, s.binary(), filepath.Join(dir, "download"), r)
}

// calls are those with which a process changes files, or makes a change last.
var calls = []string{"openat", "write", "fsync", "renameat", "linkat", "unlinkat", "fchmod", "flock", "ftruncate"}

// everywhere is each moment at which a process is killed: as it is about to make the n-th of
// these calls. at returns false if the process has ended before.
func everywhere(at func(call string, n int) bool) (kills int) {
	for _, call := range calls {
		for n := 1; at(call, n); n++ {
			kills++
		}
	}
	return kills
}

// killed runs the other process until it is about to make the n-th such call; false if it
// ends before.
func (s *scene) killed(what, call string, n int) bool {
	s.t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		s.t.Fatalf("%v; `make deps` installs it", err)
	}
	cmd := exec.CommandContext(s.t.Context(), strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childVariable, what, s.dir, s.state.Path("")))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Exited()) {
		s.t.Fatalf("%v: %s", err, out)
	}
	return err != nil
}

// unswitched is a machine whose agent is about to switch.
func unswitched(t *testing.T) *scene {
	t.Helper()
	s := switched(t)
	must(t, os.Remove(s.binary()))
	must(t, errors.Join(os.Remove(Previous(s.binary())), dropIdentity(s.state)))
	s.build("nodehitch-agent", "v1")
	s.build("download", "v2")
	planned, err := state.Open(s.state.Path("planned"))
	must(t, err)
	must(t, save(planned, s.load()))
	must(t, s.state.Remove(recordFile))
	return s
}

// The switch is killed at each of its calls.
func TestTheSwitchIsKilledAnywhere(t *testing.T) {
	left := map[string]int{}
	kills := everywhere(func(call string, n int) bool {
		s := unswitched(t)
		if !s.killed("switch", call, n) {
			return false
		}
		runs, r := s.runs(), s.load()
		left[runs]++
		switch {
		case runs == "new" && !r.open():
			t.Errorf("killed at %s %d: the new build is there without a record", call, n)
		case runs == "new" && !isBuild(Previous(s.binary()), s.from):
			t.Errorf("killed at %s %d: the old build is not kept", call, n)
		case runs == "neither":
			t.Errorf("killed at %s %d: neither build is there", call, n)
		}
		s.untouched(call, n)
		for range 3 { // the new build never becomes healthy, wherever it was killed
			s.starts()
		}
		if s.runs() != "old" {
			t.Errorf("killed at %s %d: the old build does not come back", call, n)
		}
		s.untouched(call, n)
		return true
	})
	t.Logf("killed at %d calls: %v", kills, left)
	if left["old"] == 0 || left["new"] == 0 {
		t.Errorf("killed at %d calls; the builds after it were %v, want both", kills, left)
	}
}

// The roll-back is killed at each of its calls, and goes on at the next start.
func TestTheRollBackIsKilledAnywhere(t *testing.T) {
	left := map[string]int{}
	kills := everywhere(func(call string, n int) bool {
		s := switched(t)
		s.starts()
		s.starts()
		must(t, os.WriteFile(s.state.Path(identityFiles[0]), []byte("damaged"), 0o600))
		if !s.killed("check", call, n) {
			return false
		}
		runs, r := s.runs(), s.load()
		left[runs]++
		switch {
		case runs == "old" && r.Outcome != api.UpgradeRolledBack:
			t.Errorf("killed at %s %d: the old build is there, and the new one is not refused", call, n)
		case runs == "neither":
			t.Errorf("killed at %s %d: neither build is there", call, n)
		}
		s.starts()
		s.want("old", api.UpgradeRolledBack, true)
		s.untouched(call, n)
		return true
	})
	t.Logf("killed at %d calls: %v", kills, left)
	if left["old"] == 0 || left["new"] == 0 {
		t.Errorf("killed at %d calls; the builds after it were %v, want both", kills, left)
	}
}

// untouched fails the test if the identity is another one.
func (s *scene) untouched(call string, n int) {
	s.t.Helper()
	for _, name := range identityFiles {
		if got, err := s.state.Read(name); err != nil || string(got) != identity {
			s.t.Errorf("killed at %s %d: %s is %q, %v", call, n, name, got, err)
		}
	}
}

func isBuild(path string, b Build) bool {
	sum, err := digestOf(path)
	return err == nil && sum == b.SHA256
}
