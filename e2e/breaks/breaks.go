// Package breaks breaks the product on purpose, one break at a time, and wants a test to
// notice each. The breaks of a folder are in its breaks.yaml, beside the code:
//
//   - name: permit-of-anyone
//     broken: Any node may use a permit that was given to another one.
//     test: TestAPermitIsForOneNode
//     edits:
//   - file: permit.go
//     old: if p.Node != node {
//     new: if false {
//
// The test has to pass without the break and to fail by an assertion with it; it is what
// -run gets, so it may be a pattern. What an edit's old holds stands once in its file, which
// is named from the folder. Three more members are optional:
//
//	package: e2e/trust              # the test's, from the root of the tree; else the folder
//	env: [NODEHITCH_SUITE=full]
//	needs: [binaries, lab, kube]
//
// binaries builds the programs of `make build-lab` from the broken tree first; lab and kube
// say what the test needs, and make it fail instead of skip.
package breaks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Table is the name of the file that has the breaks of a folder.
const Table = "breaks.yaml"

// What the test of a break may need.
const (
	NeedsBinaries = "binaries"
	NeedsLab      = "lab"
	NeedsKube     = "kube"
)

// Break is one break of the product, and the test that must notice it.
type Break struct {
	// Name is of one break only in the tree.
	Name string
	// Broken says in one sentence what is broken.
	Broken string
	Test   Test
	Edits  []Edit
	// table is the path of the table from the root.
	table string
}

// Test is what `go test` runs for a break.
type Test struct {
	// Run is the pattern of -run, Package the folder from the root of the tree.
	Run, Package string
	// Env holds variables as KEY=value.
	Env   []string
	Needs []string
}

// Edit is one change of a file, whose path is from the root of the tree.
type Edit struct {
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// String is the command line of the test.
func (t Test) String() string { return fmt.Sprintf("go test -run '%s' ./%s", t.Run, t.Package) }

func (t Test) needs(what string) bool { return slices.Contains(t.Needs, what) }

// row is a break as it is written.
type row struct {
	Name    string   `json:"name"`
	Broken  string   `json:"broken"`
	Test    string   `json:"test"`
	Package string   `json:"package"`
	Env     []string `json:"env"`
	Needs   []string `json:"needs"`
	// The files are named from the folder of the table.
	Edits []Edit `json:"edits"`
}

// Load reads the tables of the tree below root, in the order of their paths. Its error names
// every break that is not complete.
func Load(root string) ([]Break, error) {
	var all []Break
	var faults []error
	tables := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != Table {
			return err
		}
		table, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var rows []row
		if err := yaml.UnmarshalStrict(content, &rows); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", table, err))
		}
		for _, r := range rows {
			if err := r.check(); err != nil {
				faults = append(faults, fmt.Errorf("%s: %q %w", table, r.Name, err))
			}
			if other, taken := tables[r.Name]; taken {
				faults = append(faults, fmt.Errorf("%s: the name %q is taken in %s", table, r.Name, other))
			}
			tables[r.Name] = table
			all = append(all, r.in(table))
		}
		return nil
	})
	return all, errors.Join(append(faults, err)...)
}

var (
	folder   = regexp.MustCompile(`^[\w./-]*$`)
	variable = regexp.MustCompile(`^[A-Z_]+=\S*$`)
)

func (r row) check() error {
	switch {
	case r.Broken == "":
		return errors.New("has to say what is broken")
	case r.Test == "":
		return errors.New("names no test")
	case !folder.MatchString(r.Package):
		return fmt.Errorf("has the package %q; expected a folder from the root of the tree", r.Package)
	case len(r.Edits) == 0:
		return errors.New("edits nothing")
	}
	for _, v := range r.Env {
		if !variable.MatchString(v) {
			return fmt.Errorf("has in its env %q; expected KEY=value", v)
		}
	}
	for _, what := range r.Needs {
		if what != NeedsBinaries && what != NeedsLab && what != NeedsKube {
			return fmt.Errorf("needs %q; expected binaries, lab or kube", what)
		}
	}
	return nil
}

// in is the break of a table.
func (r row) in(table string) Break {
	here := filepath.Dir(table)
	b := Break{Name: r.Name, Broken: r.Broken, table: table, Test: Test{Run: r.Test, Package: r.Package, Env: r.Env, Needs: r.Needs}}
	if b.Test.Package == "" {
		b.Test.Package = here
	}
	for _, e := range r.Edits {
		b.Edits = append(b.Edits, Edit{File: filepath.Join(here, e.File), Old: e.Old, New: e.New})
	}
	return b
}

// Applies says whether the break can be made in the tree at root, and if not, what to do.
func (b Break) Applies(root string) error {
	_, err := b.files(root)
	return err
}

// Touches reports whether a file of the tree, by its path from the root, is one that the break
// edits, or a test in the folder of its test.
func (b Break) Touches(file string) bool {
	return slices.ContainsFunc(b.Edits, func(e Edit) bool { return e.File == file }) ||
		filepath.Dir(file) == b.Test.Package && strings.HasSuffix(file, "_test.go")
}

// files are the files that the break changes, each with what it holds before and after, by
// its path from the root.
func (b Break) files(root string) (map[string]change, error) {
	changed := map[string]change{}
	for _, e := range b.Edits {
		file, known := changed[e.File]
		if !known {
			content, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("%s: %q edits a file that is not there: %w", b.table, b.Name, err)
			}
			file = change{before: string(content), after: string(content)}
		}
		if n := strings.Count(file.after, e.Old); n != 1 || e.Old == "" || e.Old == e.New {
			return nil, fmt.Errorf("%s: %q no longer applies: its old text stands %d times in %s; expected once, and another new text. "+
				"Break the same thing in the code as it is now; if there is nothing left to break, delete the break", b.table, b.Name, n, e.File)
		}
		file.after = strings.Replace(file.after, e.Old, e.New, 1)
		changed[e.File] = file
	}
	return changed, nil
}

type change struct{ before, after string }
