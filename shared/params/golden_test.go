package params_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/params"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// TestTheSpecificationsBodiesAreAccepted reads the samples: three as the
// specifications print them, unaltered, and kubernetes.json, which goes beyond
// them. Their goldens have the warnings.
func TestTheSpecificationsBodiesAreAccepted(t *testing.T) {
	for _, file := range bodies(t, "testdata/*.json", 4) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			request, report := params.ParseRequest(read(t, file))
			if len(report.Faults) > 0 || request == nil || report.Partial != nil {
				t.Fatalf("refused:\n%v", report.Faults)
			}
			golden(t, file, findings(report))
		})
	}
}

// TestEveryFaultOfABrokenBodyIsReported reads the bodies of testdata/broken. Each
// golden lists every fault and warning, a line each.
func TestEveryFaultOfABrokenBodyIsReported(t *testing.T) {
	for _, file := range bodies(t, "testdata/broken/*.json", 1) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			request, report := params.ParseRequest(read(t, file))
			if len(report.Faults) == 0 || request != nil {
				t.Fatal("accepted")
			}
			if got := findings(report); strings.Contains(got, "hunter2") {
				t.Errorf("a password is repeated:\n%s", got)
			}
			golden(t, file, findings(report))
		})
	}
}

func findings(report params.Report) string {
	var b strings.Builder
	for _, f := range report.Faults {
		b.WriteString("fault " + f.String() + "\n")
	}
	for _, w := range report.Warnings {
		b.WriteString("warning " + w.String() + "\n")
	}
	return b.String()
}

// golden compares with the file of the same name that ends in .golden.
func golden(t *testing.T, file, got string) {
	t.Helper()
	name := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, name)), got); diff != "" {
		t.Errorf("%s (-want +got), go test -update writes it anew:\n%s", name, diff)
	}
}

func bodies(t *testing.T, pattern string, least int) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("found %d files for %s (%v), want at least %d", len(files), pattern, err, least)
	}
	return files
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
