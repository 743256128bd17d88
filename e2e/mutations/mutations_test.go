package mutations

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A change of the code that a mutation breaks changes the mutation with it.
func TestEveryMutationIsUpToDate(t *testing.T) {
	all, err := Load(".")
	if err != nil {
		t.Error(err)
	}
	if len(all) == 0 {
		t.Error("no mutation is here")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := Applies(t.Context(), root, m); err != nil {
			t.Error(err)
		}
		if m.Test.Run != "" && !isThere(t, filepath.Join(root, m.Test.Package), m.Test.Run) {
			t.Errorf("%s.patch: ./%s has no test that matches %q any more: name the one that notices the mutation now", m.Name, m.Test.Package, m.Test.Run)
		}
	}
}

// testName is of what -run runs: the seeds of a fuzz test too.
var testName = regexp.MustCompile(`^(Test|Fuzz)`)

// isThere says whether a test file of the folder has a test that the pattern matches.
func isThere(t *testing.T, folder, pattern string) bool {
	t.Helper()
	first, _, _ := strings.Cut(pattern, "/")
	named, err := regexp.Compile(first)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) && named.MatchString(f.Name.Name) {
				return true
			}
		}
	}
	return false
}

func TestIncompleteHeaders(t *testing.T) {
	const test, diff = "Test: go test -run 'TestX/case' ./pkg\n", "diff --git a/x b/x\n"
	for name, c := range map[string]struct{ patch, says string }{
		"no diff":       {"Broken.\n" + test, "holds no `diff --git`"},
		"no sentence":   {"\n" + test + diff, "say what is broken"},
		"only the test": {test + diff, "say what is broken"},
		"no test":       {"Broken.\n\n" + diff, "lacks the line `Test:"},
		"a shell line":  {"Broken.\nTest: go test ./... && true\n" + diff, "the test is"},
		"no variable":   {"Broken.\n" + test + "Env: full\n" + diff, "expected KEY=value"},
		"unknown needs": {"Broken.\n" + test + "Needs: luck\n" + diff, "expected binaries, lab or kube"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "a.patch"), []byte(c.patch), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(folder)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "a.patch") {
				t.Errorf("%v; expected a.patch and %q", err, c.says)
			}
		})
	}
}
