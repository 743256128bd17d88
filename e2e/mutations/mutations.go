// Package mutations breaks the product on purpose, one break at a time, and wants a
// test to notice each. A mutation is a file <area>-<name>.patch in this folder:
//
//	Any node may use a permit that was given to another one.
//	Test: go test -run 'TestAPermitIsForOneNode' ./controller/permit
//
//	diff --git a/controller/permit/…
//
// The first line says what is broken. The test has to pass without the mutation and to
// fail by an assertion with it. Two more lines are optional:
//
//	Env: NODEHITCH_SUITE=full
//	Needs: binaries, lab, kube
//
// binaries builds the programs of `make build-lab` from the mutated tree first; lab and
// kube say what the test needs, and make it fail instead of skip.
//
// To add one: break the product by hand, write the two lines into the file, append
// `git diff -U1`, take the break back, and run `make mutations MUTATIONS=<area>-<name>`.
// To make one again after its code has moved: break the new place, replace the diff
// below the header by `git diff -U1`. One changed line with one line around it moves
// most easily.
package mutations

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What a mutation's test may need.
const (
	NeedsBinaries = "binaries"
	NeedsLab      = "lab"
	NeedsKube     = "kube"
)

// Mutation is one break of the product, and the test that must notice it.
type Mutation struct {
	// Name is that of the file without its ending, Patch the whole file.
	Name  string
	Patch []byte
	// Broken says in one sentence what is broken.
	Broken string
	Test   Test
}

// Test is what `go test` runs for a mutation.
type Test struct {
	// Run is the pattern of -run, Package the folder from the root of the tree.
	Run, Package string
	// Env holds variables as KEY=value.
	Env   []string
	Needs []string
}

// String is the command line of the test.
func (t Test) String() string { return fmt.Sprintf("go test -run '%s' ./%s", t.Run, t.Package) }

func (t Test) needs(what string) bool { return slices.Contains(t.Needs, what) }

// Load reads the mutations of a folder. Its error names every file whose header is not
// complete.
func Load(folder string) ([]Mutation, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []Mutation
	var faults []error
	for _, file := range files {
		patch, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m := Mutation{Name: strings.TrimSuffix(filepath.Base(file), ".patch"), Patch: patch}
		if err := m.parseHeader(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
		}
		all = append(all, m)
	}
	return all, errors.Join(faults...)
}

var (
	diffBegins = regexp.MustCompile(`(?m)^diff --git `)
	command    = regexp.MustCompile(`^go test -run '([^']+)' \./([\w./-]+)$`)
	variable   = regexp.MustCompile(`^[A-Z_]+=\S*$`)
)

func (m *Mutation) parseHeader() error {
	begins := diffBegins.FindIndex(m.Patch)
	if begins == nil {
		return errors.New("holds no `diff --git`")
	}
	lines := strings.Split(string(m.Patch[:begins[0]]), "\n")
	if m.Broken = lines[0]; m.Broken == "" || strings.HasPrefix(m.Broken, "Test:") {
		return errors.New("the first line has to say what is broken")
	}
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, ": ")
		if err := m.Test.set(key, value); err != nil {
			return err
		}
	}
	if m.Test.Run == "" {
		return errors.New("lacks the line `Test: go test -run '<pattern>' ./<folder>`")
	}
	return nil
}

// set takes a line of the header. Any other line is free text.
func (t *Test) set(key, value string) error {
	switch key {
	case "Test":
		parts := command.FindStringSubmatch(value)
		if parts == nil {
			return fmt.Errorf("the test is %q; expected go test -run '<pattern>' ./<folder>", value)
		}
		t.Run, t.Package = parts[1], parts[2]
	case "Env":
		t.Env = strings.Fields(value)
		for _, v := range t.Env {
			if !variable.MatchString(v) {
				return fmt.Errorf("the environment has %q; expected KEY=value", v)
			}
		}
	case "Needs":
		t.Needs = strings.Split(value, ", ")
		for _, what := range t.Needs {
			if what != NeedsBinaries && what != NeedsLab && what != NeedsKube {
				return fmt.Errorf("needs %q; expected binaries, lab or kube", what)
			}
		}
	}
	return nil
}
