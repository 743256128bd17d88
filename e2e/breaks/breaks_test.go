package breaks

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

const root = "../.."

// A change of the code that a break edits changes the break with it.
func TestEveryBreakIsUpToDate(t *testing.T) {
	all, err := Load(root)
	if err != nil {
		t.Error(err)
	}
	if len(all) == 0 {
		t.Error("no break is here")
	}
	for _, b := range all {
		if err := b.Applies(root); err != nil {
			t.Error(err)
		}
		if b.Test.Run != "" && !isThere(t, filepath.Join(root, b.Test.Package), b.Test.Run) {
			t.Errorf("%s: %q: ./%s has no test that matches %q any more: name the one that notices the break now", b.table, b.Name, b.Test.Package, b.Test.Run)
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

func TestIncompleteBreaks(t *testing.T) {
	const whole = "- name: a\n  broken: It.\n  test: TestX\n  edits: [{file: x, old: a, new: b}]\n"
	for name, c := range map[string]struct{ table, says string }{
		"no sentence":    {strings.Replace(whole, "  broken: It.\n", "", 1), "say what is broken"},
		"no test":        {strings.Replace(whole, "  test: TestX\n", "", 1), "names no test"},
		"no edit":        {strings.Replace(whole, "{file: x, old: a, new: b}", "", 1), "edits nothing"},
		"a shell line":   {whole + "  package: x && true\n", "has the package"},
		"no variable":    {whole + "  env: [full]\n", "expected KEY=value"},
		"unknown needs":  {whole + "  needs: [luck]\n", "expected binaries, lab or kube"},
		"unknown member": {whole + "  pkg: x\n", `unknown field "pkg"`},
		"a name of two":  {whole + whole, `"a" is taken`},
		"no YAML":        {"- name: [\n", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, Table), []byte(c.table), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(folder)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), Table) {
				t.Errorf("%v; expected %s and %q", err, Table, c.says)
			}
		})
	}
}
