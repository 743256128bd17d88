package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Lines of strace that begin a call, after the thread's number.
var (
	synced  = regexp.MustCompile(`^\d+ +fsync\(`)
	renamed = regexp.MustCompile(`^\d+ +rename\w*\(`)
)

// A power cut may lose or reorder what was not synced. So a file gets its name once its content
// lasts, and is there once the name lasts.
func TestAFileLastsBeforeItIsThere(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	const once = "^TestABuildOfTheAgentIsFetched$"
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-y", "-o", log, "-e", "trace=fsync,rename,renameat,renameat2", "-e", "signal=none", os.Args[0], "-test.run", once)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s; `make deps` installs strace", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for line := range strings.Lines(string(text)) {
		switch { // the rest of a call, and what strace says of a thread's end, have no name before "("
		case renamed.MatchString(line):
			steps = append(steps, "named")
		case synced.MatchString(line) && strings.Contains(line, partSuffix+">"):
			steps = append(steps, "content synced")
		case synced.MatchString(line):
			steps = append(steps, "directory synced")
		}
	}
	if diff := cmp.Diff([]string{"content synced", "named", "directory synced"}, steps); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, text)
	}
}
