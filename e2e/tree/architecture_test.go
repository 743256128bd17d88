package tree

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecturePage = "../../docs/dev/architecture.md"

// drawn is a package in the picture.
type drawn struct {
	row   int
	walks string
}

// The picture is the rule: a package imports only what stands in a lower row.
func TestImportsPointDown(t *testing.T) {
	picture := readPicture(t)
	imports := 0
	for _, p := range projectPackages(t, "./controller/...", "./agent/...") {
		from, known := picture[p.path]
		if !known {
			continue // a test kit, or missing: TestEveryPackageIsOnThePage says so
		}
		for _, dep := range p.imports {
			to, known := picture[dep]
			imports++
			switch {
			case !known:
				t.Errorf("%s imports %s, which is not in the picture of %s", p.path, dep, architecturePage)
			case to.row <= from.row:
				t.Errorf("%s (row %d) imports %s (row %d): in the picture of %s that does not point down", p.path, from.row, dep, to.row, architecturePage)
			}
		}
	}
	if imports < 100 {
		t.Errorf("compared %d imports only: is this the root of the tree?", imports)
	}
}

func TestEveryPackageIsOnThePage(t *testing.T) {
	picture := readPicture(t)
	listed := map[string]bool{}
	for _, row := range tableRows(t, "## The packages", 2) {
		name := strings.Trim(row[0], "`")
		if listed[name] {
			t.Errorf("%s: two lines for %s", architecturePage, name)
		}
		listed[name] = true
	}
	kits := map[string]bool{}
	for _, row := range tableRows(t, "### Test kits", 2) {
		kits[strings.Trim(row[0], "`")] = true
	}
	there := map[string]bool{}
	for _, p := range projectPackages(t, "./controller/...", "./agent/...", "./shared/...", "./cloudinit/...", "./packaging/tacker/...") {
		there[p.path] = true
		_, inPicture := picture[p.path]
		if !listed[p.path] {
			t.Errorf("%s: no line says what %s decides", architecturePage, p.path)
		}
		if inPicture == kits[p.path] {
			t.Errorf("%s: %s has to be either in the picture (it is: %v) or among the test kits (it is: %v)", architecturePage, p.path, inPicture, kits[p.path])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(picture)) {
		if !there[name] {
			t.Errorf("%s: the picture has %s, and there is no such package", architecturePage, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !there[name] {
			t.Errorf("%s: there is no package %s", architecturePage, name)
		}
	}
}

// Each hop of a walk names a file and a function that exist.
func TestWalksExist(t *testing.T) {
	walked := map[string]string{} // package to the letters of the walks through it
	for letter, heading := range map[string]string{"a": "### a. ", "b": "### b. ", "c": "### c. "} {
		hops := 0
		for line := range strings.Lines(fenced(t, heading)) {
			if strings.HasPrefix(line, "---") {
				continue // the network
			}
			fields := strings.Fields(line)
			if len(fields) < 3 {
				t.Errorf("%s, walk %s: %q is no hop; expected file, function, what happens there", architecturePage, letter, line)
				continue
			}
			hops++
			declared(t, fields[0], fields[1])
			if name := path.Dir(fields[0]); !strings.Contains(walked[name], letter) {
				walked[name] += letter
			}
		}
		if hops < 5 {
			t.Errorf("%s: walk %s has %d hops", architecturePage, letter, hops)
		}
	}
	for name, p := range readPicture(t) {
		if got := sorted(walked[name]); got != p.walks {
			t.Errorf("%s: the picture marks %s with %q, and the walks through it are %q", architecturePage, name, p.walks, got)
		}
	}
}

func TestDecisionsExist(t *testing.T) {
	rows := tableRows(t, "## Where is it decided?", 3)
	for _, row := range rows {
		declared(t, strings.Trim(row[1], "`"), strings.Trim(row[2], "`"))
	}
	if len(rows) < 15 {
		t.Errorf("%s: %d decisions", architecturePage, len(rows))
	}
}

// declared fails if the file does not declare the function; a method is written
// Type.Method.
func declared(t *testing.T, file, function string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%s: %v", architecturePage, err)
		return
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && nameOf(f) == function {
			return
		}
	}
	t.Errorf("%s: %s declares no function %s", architecturePage, file, function)
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// The columns of the picture; its last rows go across all of them and are named from
// the root.
var columns = []string{"controller", "controller/hitchctl", "agent"}

var drawnName = regexp.MustCompile(`^([a-z0-9/]+?)(?::([abc]+))?$`)

// readPicture is every package in the picture, by its path from the root.
func readPicture(t *testing.T) map[string]drawn {
	t.Helper()
	picture := map[string]drawn{}
	row := 0
	for line := range strings.Lines(fenced(t, "## The picture")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "├") {
			row++
		}
		if !strings.HasPrefix(line, "│") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "│"), "│")
		for i, cell := range cells {
			folder := ""
			if len(cells) == len(columns) {
				folder = columns[i]
			}
			for _, word := range strings.Fields(cell) {
				m := drawnName.FindStringSubmatch(word)
				switch {
				case m == nil:
					t.Fatalf("%s: %q in the picture is no package", architecturePage, word)
				case strings.HasSuffix(word, "/"):
					folder = path.Join(folder, word)
					continue
				case m[1] == "main":
					m[1] = ""
				}
				name := path.Join(folder, m[1])
				if _, twice := picture[name]; twice {
					t.Errorf("%s: %s is twice in the picture", architecturePage, name)
				}
				picture[name] = drawn{row: row, walks: m[2]}
			}
		}
	}
	return picture
}

// section is the page's text from a heading to the next one of its rank.
func section(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n"+heading)
	if !found {
		t.Fatalf("%s has no %q", architecturePage, heading)
	}
	rank, _, _ := strings.Cut(heading, " ")
	text, _, _ = strings.Cut(text, "\n"+rank+" ")
	text, _, _ = strings.Cut(text, "\n"+strings.TrimPrefix(rank, "#")+" ")
	return text
}

// fenced is the code block of a section.
func fenced(t *testing.T, heading string) string {
	t.Helper()
	_, block, found := strings.Cut(section(t, heading), "\n```text\n")
	if !found {
		t.Fatalf("%s: %q has no text block", architecturePage, heading)
	}
	block, _, _ = strings.Cut(block, "```")
	return block
}

// tableRows are the rows of a section's tables, without their heads.
func tableRows(t *testing.T, heading string, columns int) (rows [][]string) {
	t.Helper()
	head := true
	for line := range strings.Lines(section(t, heading)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			head = true
		case strings.HasPrefix(line, "|---"):
			head = false
		case !head:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if len(cells) != columns {
				t.Errorf("%s: %q has %d cells, expected %d", architecturePage, line, len(cells), columns)
				continue
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// projectPackage is a package and what it imports of the project, by paths from the root.
type projectPackage struct {
	path    string
	imports []string
}

func projectPackages(t *testing.T, patterns ...string) (list []projectPackage) {
	t.Helper()
	args := append([]string{"list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`}, patterns...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(patterns, " "), err)
	}
	for line := range strings.Lines(string(out)) {
		var own []string
		for _, name := range strings.Fields(line) {
			if rest, ok := strings.CutPrefix(name, module+"/"); ok {
				own = append(own, rest)
			}
		}
		list = append(list, projectPackage{path: own[0], imports: own[1:]})
	}
	slices.SortFunc(list, func(a, b projectPackage) int { return cmp.Compare(a.path, b.path) })
	return list
}

func sorted(letters string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Split(letters, ""))), "")
}
