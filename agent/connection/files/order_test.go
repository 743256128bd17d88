package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		switch {
		case strings.Contains(line, " resumed>"): // the rest of a call
		case strings.Contains(line, "rename"):
			steps = append(steps, "named")
		case strings.Contains(line, partSuffix+">"):
			steps = append(steps, "content synced")
		default:
			steps = append(steps, "directory synced")
		}
	}
	if diff := cmp.Diff([]string{"content synced", "named", "directory synced"}, steps); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, text)
	}
}
