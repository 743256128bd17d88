package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A power cut may lose or reorder what was not synced. So a build lasts before it is switched
// to, and each step of a switch, and of a roll-back, is synced before the next one begins.
func TestEachStepLastsBeforeTheNext(t *testing.T) {
	s := unswitched(t)
	program, err := os.ReadFile(os.Args[0])
	must(t, err)
	for name, content := range map[string]string{"download": string(program), "config": "good"} {
		must(t, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
	}
	if diff := cmp.Diff([]string{"sync build"}, s.traced("verify")); diff != "" {
		t.Errorf("a build that may be switched to (-want +got):\n%s", diff)
	}
	s.build("download", "v2")
	want := []string{
		"identity", "sync state", "machine", "sync state", "old build kept", "sync programs",
		"record", "sync state", "binary replaced", "sync programs",
	}
	if diff := cmp.Diff(want, s.traced("switch")); diff != "" {
		t.Errorf("a switch (-want +got):\n%s", diff)
	}
	s.starts()
	s.starts()
	want = []string{"record", "sync state", "binary replaced", "sync programs"}
	if diff := cmp.Diff(want, s.traced("check")); diff != "" {
		t.Errorf("a roll-back (-want +got):\n%s", diff)
	}
}

// traced runs the other process and returns what it did, in its order.
func (s *scene) traced(what string) (steps []string) {
	s.t.Helper()
	log := filepath.Join(s.t.TempDir(), "log")
	cmd := exec.CommandContext(s.t.Context(), "strace", "-f", "-qq", "-y", "-o", log, "-e", "trace=fsync,renameat,linkat", os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childVariable, what, s.dir, s.state.Path("")))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(log)
	must(s.t, err)
	names := map[string]string{ // the end of a call's arguments
		"<" + filepath.Join(s.dir, "download") + ">)":       "sync build",
		"<" + s.dir + ">)":                                  "sync programs",
		"<" + s.state.Path("") + ">)":                       "sync state",
		`"` + s.state.Path(recordFile) + `")`:               "record",
		`"` + s.state.Path(copyOf(identityFiles[0])) + `")`: "identity",
		`"` + s.state.Path(copyOf(identityFiles[1])) + `")`: "machine",
		`"` + Previous(s.binary()) + `", 0)`:                "old build kept",
		`"` + s.binary() + `")`:                             "binary replaced",
	}
	for line := range strings.Lines(string(text)) {
		call, _, _ := strings.Cut(line, " = ")
		call = strings.Replace(strings.TrimSpace(call), " <unfinished ...>", ")", 1)
		for end, name := range names {
			if strings.HasSuffix(call, end) {
				steps = append(steps, name)
			}
		}
	}
	return steps
}
