package breaks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// small is a checkout of the module in testdata, and its breaks.
func small(t *testing.T) (checkout string, all []Break) {
	t.Helper()
	checkout = t.TempDir()
	archive, err := txtar.ParseFile("testdata/small.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if err := txtar.Write(archive, checkout); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", checkout).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if all, err = Load(checkout); err != nil {
		t.Fatal(err)
	}
	return checkout, all
}

func TestOutcomes(t *testing.T) {
	checkout, all := small(t)
	expected := map[string]struct {
		outcome Outcome
		says    string
	}{
		"caught":       {Caught, "half_test.go:11: 1"},
		"requested":    {Caught, "half_test.go:24: 1"},
		"survived":     {Survived, ""},
		"not-compiled": {NotRun, "does not compile"},
		"panics":       {NotRun, "not by an assertion"},
		"moved":        {NotRun, `"moved" no longer applies`},
		"skipped":      {NotRun, "not requested"},
		"no-such-case": {NotRun, "no test matches"},
		"red-before":   {NotRun, "without the break"},
	}
	source := filepath.Join(checkout, "pkg/half.go")
	before, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), checkout, all, func(r Result) {
		want, known := expected[r.Name]
		if !known || r.Outcome != want.outcome || !strings.Contains(r.Detail, want.says) {
			t.Errorf("%s: %s, %s; expected %s, %q", r.Name, r.Outcome, r.Detail, want.outcome, want.says)
		}
		delete(expected, r.Name)
		if now, err := os.ReadFile(source); err != nil || string(now) != string(before) {
			t.Errorf("%s reached the checkout (%v): %s", r.Name, err, now)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for name := range expected {
		t.Errorf("%s has no result", name)
	}
}
