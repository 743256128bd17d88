package breaks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// outcome is the outcome of a run of `go test`.
type outcome int

const (
	// broken: the run says nothing about the product; the text beside it says why.
	broken outcome = iota
	passed
	// failed: an assertion of the test failed.
	failed
)

// timeout is for the whole of one test. A test that runs into it shows nothing.
const timeout = "20m"

// shown is how many bytes of a test's output a report holds.
const shown = 4000

// event is what `go test -json` writes on a line.
type event struct{ Action, Test, Output string }

// run runs a test in the tree and returns its outcome and output.
func (t *tree) run(ctx context.Context, test Test) (outcome, string) {
	if test.needs(NeedsBinaries) {
		defer os.RemoveAll(filepath.Join(t.dir, "bin")) //nolint:errcheck // else the next test may use them, and says so
		if out, err := t.command(ctx, test, "make", "build-lab").CombinedOutput(); err != nil {
			return broken, fmt.Sprintf("the programs do not compile: %v: %s", err, out)
		}
	}
	var stderr bytes.Buffer
	cmd := t.command(ctx, test, "go", "test", "-json", "-vet=off", "-count=1", "-timeout", timeout, "-run", test.Run, "./"+test.Package)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return broken, "interrupted"
	}
	what, text := read(out, 1+strings.Count(test.Run, "/"))
	if what == passed && err != nil {
		return broken, fmt.Sprintf("%v: %s", err, &stderr)
	}
	return what, text
}

func (t *tree) command(ctx context.Context, test Test, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), test.Env...)
	if test.needs(NeedsLab) || test.needs(NeedsKube) {
		cmd.Env = append(cmd.Env, "NODEHITCH_LAB=required")
	}
	return cmd
}

// read returns the outcome of a run from its events. depth is how many names of a test and
// its cases the pattern has: only tests that deep count.
func read(events []byte, depth int) (outcome, string) {
	counts := map[string]int{}
	var output strings.Builder
	crashed := false
	for lines := json.NewDecoder(bytes.NewReader(events)); lines.More(); {
		var e event
		if err := lines.Decode(&e); err != nil {
			return broken, fmt.Sprintf("reading the output of go test: %v: %.*s", err, shown, events)
		}
		output.WriteString(e.Output)
		crashed = crashed || strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")
		if e.Action == "build-fail" || e.Test != "" && 1+strings.Count(e.Test, "/") >= depth {
			counts[e.Action]++
		}
	}
	text := output.String()
	text = text[max(0, len(text)-shown):]
	switch {
	case counts["build-fail"] > 0:
		return broken, "it does not compile: " + text
	case crashed:
		return broken, "the test ended by a panic or its timeout, not by an assertion: " + text
	case counts["fail"] > 0:
		return failed, text
	case counts["skip"] > 0:
		return broken, "a test was skipped: " + text
	case counts["pass"] == 0:
		return broken, "no test matches: " + text
	}
	return passed, text
}
