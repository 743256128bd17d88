package results

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// A test that belongs to no part would never run its long cases; one that belongs to two
// would have two lines in the table, unless they are of different systems.
func TestEachTestBelongsToOnePart(t *testing.T) {
	found := testsBelow(t, "../..", "e2e")
	if len(found) < 20 {
		t.Fatalf("found %d packages with tests only: is this the root of the tree?", len(found))
	}
	systems := map[image.System]map[string]map[string]int{}
	for _, part := range Parts {
		for _, s := range part {
			if !strings.HasPrefix(s.Package, "./e2e/") {
				continue
			}
			if systems[s.System] == nil {
				systems[s.System] = map[string]map[string]int{}
			}
			belongs := systems[s.System]
			if belongs[s.Package] == nil {
				belongs[s.Package] = map[string]int{}
			}
			tests := s.Tests
			if len(tests) == 0 {
				tests = found[s.Package]
			}
			for _, name := range tests {
				belongs[s.Package][name]++
			}
		}
	}
	belongs := systems[""]
	for system, again := range systems {
		for pkg, tests := range again {
			for name, n := range tests {
				if n > 1 || belongs[pkg][name] == 0 {
					t.Errorf("%s of %s belongs to %d parts for %q and to %d for Debian 12", name, pkg, n, system, belongs[pkg][name])
				}
			}
		}
	}
	for _, apart := range Apart {
		if belongs[apart] != nil {
			t.Errorf("%s is apart and in a part", apart)
		}
		delete(found, apart)
	}
	for pkg, tests := range found {
		for _, name := range tests {
			if n := belongs[pkg][name]; n != 1 {
				t.Errorf("%s of %s belongs to %d parts: want 1", name, pkg, n)
			}
			delete(belongs[pkg], name)
		}
	}
	for pkg, tests := range belongs {
		if found[pkg] == nil {
			t.Errorf("a part has %s, which has no tests", pkg)
		}
		for name := range tests {
			t.Errorf("a part has %s of %s, which does not exist", name, pkg)
		}
	}
}

// The packages of the product are run there too, with all their checks.
func TestThePackagesOfTheProductBelongToAPart(t *testing.T) {
	for _, folder := range []string{"agent", "cloudinit", "controller", "packaging", "shared"} {
		count := 0
		for _, part := range Parts {
			for _, s := range part {
				if s.Package == "./"+folder+"/..." && len(s.Tests) == 0 && !s.OnEtcd {
					count++
				}
			}
		}
		if count != 1 {
			t.Errorf("%s belongs to %d parts: want 1", folder, count)
		}
	}
}

// The packages whose tests open a store by storetest are run on etcd too, but for those of
// backups, which choose the engine themselves.
func TestThePackagesWithAStoreAreRunOnEtcd(t *testing.T) {
	const root = "../.."
	want := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "controller"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		for _, i := range file.Imports {
			switch _, kit, _ := strings.Cut(i.Path.Value, "/controller/"); kit {
			case `store/storetest"`, `core/controllertest"`, `lifecycle/lifecycletest"`:
				want["./"+rel] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(want, "./controller/backup")
	for _, part := range Parts {
		for _, s := range part {
			if s.OnEtcd && !want[s.Package] {
				t.Errorf("%s is run on etcd twice, or has no store", s.Package)
			}
			if s.OnEtcd {
				delete(want, s.Package)
			}
		}
	}
	for pkg := range want {
		t.Errorf("%s is not run on etcd", pkg)
	}
}

// testsBelow are the names of the tests of each package, whatever its build tags.
func testsBelow(t *testing.T, root, folder string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		for _, d := range file.Decls {
			f, isFunction := d.(*ast.FuncDecl)
			if isFunction && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				found["./"+rel] = append(found["./"+rel], f.Name.Name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A part that is run again replaces its own records only, and the table says what was
// run at another commit, cut off, or not at all.
func TestTableOfParts(t *testing.T) {
	folder := t.TempDir()
	for _, r := range []Run{{3, "abc", Failed, 9}, {1, "abc", OK, 60}, {2, "abc", "", 0}, {3, "def-dirty", OK, 7}} {
		if err := r.Begin(folder); err != nil {
			t.Fatal(err)
		}
		record := Record{Suite: "suite", Case: string(rune('z' - r.Part)), Outcome: OK}
		if err := record.write(PartFolder(folder, r.Part)); err != nil {
			t.Fatal(err)
		}
		if r.Outcome == "" {
			continue // it does not come to its end
		}
		if err := r.Write(folder); err != nil {
			t.Fatal(err)
		}
	}
	runs, records, err := LoadParts(folder)
	if err != nil {
		t.Fatal(err)
	}
	var cases []string
	for _, r := range records {
		cases = append(cases, r.Case)
	}
	if !slices.Equal(cases, []string{"w", "x", "y"}) {
		t.Errorf("the records of all parts are %q", cases)
	}
	var table strings.Builder
	failed, err := MarkdownParts(&table, runs)
	if err != nil || failed != len(Parts)-2 {
		t.Errorf("%d of %d parts failed, %v", failed, len(Parts), err)
	}
	for _, want := range []string{
		"| 1 | abc | ok | 60 s |", "| 2 | abc | cut off |  |", "| 3 | def-dirty | ok |", "| 4 |  | not run |  |",
		"The parts were run at different commits: abc (1, 2); def-dirty (3).",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	table.Reset()
	if _, err := MarkdownParts(&table, runs[:2]); err != nil || strings.Contains(table.String(), "different") {
		t.Errorf("parts of one commit: %v\n%s", err, table.String())
	}
}
