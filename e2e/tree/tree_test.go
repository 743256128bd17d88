package tree

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/nodehitch/nodehitch"

var update = flag.Bool("update", false, "rewrite the golden files")

// A newcomer should learn from its comment what a package is, and what it is not.
func TestEveryPackageIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".gen.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		documented[dir] = documented[dir] || len(strings.Fields(file.Doc.Text())) >= 8
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment of at least a sentence", dir)
		}
	}
	if len(documented) < 10 {
		t.Errorf("found %d packages only: is this the root of the tree?", len(documented))
	}
}

// The folders that each folder must not know.
var forbidden = map[string][]string{
	// Roles get files and permits through interfaces of their own, so that no code that
	// decides about a disk links a network client of the controller.
	"agent/role":       {"agent/connection"},
	"agent/machine":    {"agent/role", "agent/connection"},
	"agent/connection": {"agent/daemon"},
	// The CLI reads topologies and talks to the controller alone.
	"controller/hitchctl": {"controller/cloud/openstack", "controller/store"},
	"agent":               {"controller", "cloudinit", "packaging", "e2e"},
	"controller":          {"agent", "packaging", "e2e"},
	"shared":              {"agent", "controller", "cloudinit", "packaging", "e2e"},
	"cloudinit":           {"agent", "controller", "packaging", "e2e"},
}

// shim is data: hitchctl puts into VNF packages what Tacker compares with the files of
// python3-nodehitch-tacker, and both have them from one folder.
const shim = module + "/packaging/tacker/shim"

func TestImportsGoInOneDirection(t *testing.T) {
	for _, dep := range goList(t, shim) {
		if strings.HasPrefix(dep, module) && dep != shim {
			t.Errorf("%s is data, and depends on %s", shim, dep)
		}
	}
	for folder, others := range forbidden {
		for _, dep := range goList(t, "./"+folder+"/...") {
			if folder == "controller" && dep == shim {
				continue
			}
			for _, other := range others {
				if strings.HasPrefix(dep, module+"/"+other) {
					t.Errorf("%s depends on %s", folder, dep)
				}
			}
		}
	}
}

// Growth of what the agent links is a decision, not an accident: the list of
// modules it is made of is checked in. Rewrite it with -update.
func TestAgentDependencies(t *testing.T) {
	var external []string
	for _, dep := range goList(t, "./agent") {
		first, _, _ := strings.Cut(dep, "/")
		if strings.Contains(first, ".") && !strings.HasPrefix(dep, module) {
			external = append(external, dep)
		}
	}
	slices.Sort(external)
	got := strings.Join(external, "\n") + "\n"
	const golden = "testdata/agent-dependencies.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("packages linked into the agent changed (-%s +now):\n%s", golden, diff)
	}
	for _, banned := range []string{"labstack/echo", "getkin/kin-openapi", "k8s.io/api/", "k8s.io/client-go/kubernetes"} {
		if strings.Contains(got, banned) {
			t.Errorf("the agent links %s", banned)
		}
	}
}

// Test helpers are not part of the product.
func TestProgramsLinkNothingForTests(t *testing.T) {
	forTests := []string{module + "/controller/lifecycle/invariant", module + "/shared/client/testca", module + "/shared/sourcetree"}
	for _, program := range []string{"./agent", "./controller", "./controller/hitchctl"} {
		for _, dep := range goList(t, program) {
			if slices.Contains(forTests, dep) || strings.HasPrefix(dep, module) && strings.HasSuffix(dep, "test") {
				t.Errorf("%s links %s", program, dep)
			}
		}
	}
}

// goList is every package that the pattern's packages depend on, themselves included.
func goList(t *testing.T, pattern string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", pattern)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pattern, err)
	}
	return strings.Fields(string(out))
}
