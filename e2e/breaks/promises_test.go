package breaks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const promisesPage = root + "/docs/dev/promises.md"

// Each promise of the page has a test and a break that this test notices.
func TestEveryPromiseHasATestAndABreak(t *testing.T) {
	page, err := os.ReadFile(promisesPage)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Load(root)
	if err != nil {
		t.Error(err)
	}
	breaks := map[string]Break{}
	for _, b := range all {
		breaks[b.Name] = b
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || strings.HasPrefix(line, "| what holds") {
			continue
		}
		rows++
		p := promise{t, strings.TrimPrefix(cells[0], "| "), testsOf(cells[1])}
		p.checkTests()
		p.checkBreaks(spans(cells[2]), breaks)
	}
	if rows < 50 {
		t.Errorf("the page has %d rows", rows)
	}
}

var span = regexp.MustCompile("`([^`]+)`")

func spans(cell string) (texts []string) {
	for _, found := range span.FindAllStringSubmatch(cell, -1) {
		texts = append(texts, found[1])
	}
	return texts
}

// named is a test as a row names it: a package, and behind it its tests.
type named struct{ folder, name string }

func testsOf(cell string) (tests []named) {
	folder := ""
	for _, text := range spans(cell) {
		if testName.MatchString(text) {
			tests = append(tests, named{folder, text})
		} else {
			folder = text
		}
	}
	return tests
}

// promise is a row of the page.
type promise struct {
	t     *testing.T
	text  string
	tests []named
}

func (p promise) checkTests() {
	p.t.Helper()
	if len(p.tests) == 0 {
		p.t.Errorf("%s: names no test", p.text)
	}
	for _, test := range p.tests {
		folder := filepath.Join(root, test.folder)
		name, below, _ := strings.Cut(test.name, "/")
		if !isThere(p.t, folder, "^"+name+"$") {
			p.t.Errorf("%s: %s has no test %s", p.text, test.folder, name)
		}
		if below != "" && !isCase(p.t, folder, below) {
			p.t.Errorf("%s: %s has no case %s", p.text, test.folder, test.name)
		}
	}
}

// isCase says whether the folder has a case that is a file or a folder.
func isCase(t *testing.T, folder, name string) bool {
	t.Helper()
	for _, pattern := range []string{name, "testdata/script/*/" + name + ".txtar"} {
		if found, err := filepath.Glob(filepath.Join(folder, pattern)); err != nil || len(found) > 0 {
			return err == nil
		}
	}
	return false
}

func (p promise) checkBreaks(names []string, breaks map[string]Break) {
	p.t.Helper()
	if len(names) == 0 {
		p.t.Errorf("%s: names no break", p.text)
	}
	for _, name := range names {
		b, found := breaks[name]
		if !found {
			p.t.Errorf("%s: there is no break %s", p.text, name)
		} else if !p.notices(b) {
			p.t.Errorf("%s: no test of it notices %s, but `%s` does", p.text, name, b.Test)
		}
	}
}

// notices says whether a test of the row is what a break runs.
func (p promise) notices(b Break) bool {
	pattern, runs, _ := strings.Cut(b.Test.Run, "/")
	for _, test := range p.tests {
		name, below, _ := strings.Cut(test.name, "/")
		sameCase := below == "" || runs == "" || below == runs
		if test.folder == b.Test.Package && sameCase && regexp.MustCompile(pattern).MatchString(name) {
			return true
		}
	}
	return false
}
