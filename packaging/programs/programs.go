// Package programs runs code that needs the command tree of a program. The trees are not
// exported, and programs must not grow for what only a build needs: an overlay that only
// this build sees adds a file to the program's folder, which runs instead of the program.
package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const module = "github.com/nodehitch/nodehitch"

// Program is a program that is shipped.
type Program struct {
	// Name is the name of its file.
	Name string
	// Main is the folder of its main package, from the root of the source tree.
	Main string
	// folder is the package that makes the command tree, by the expression tree.
	folder, tree string
}

// All are the programs that are shipped.
var All = []Program{
	{Name: "nodehitch-agent", Main: "agent", folder: "agent", tree: "command()"},
	{Name: "nodehitch-controller", Main: "controller", folder: "controller", tree: "command()"},
	{Name: "hitchctl", Main: "controller/hitchctl", folder: "controller/hitchctl/command", tree: "new(app).root()"},
}

// Run runs the function (a folder and a name, such as e2e/names/probe.Commands) with the
// program's command tree and returns what it prints. The function takes a *cobra.Command and
// ends the process; os.Args[1:] are args.
func (p Program) Run(ctx context.Context, root, function string, args ...string) (string, error) {
	dir, err := os.MkdirTemp("", "nodehitch-programs-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	code := filepath.Join(dir, "run.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, p.folder, "run_instead.go"): code}})
	if err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{"run.go": []byte(p.instead(function)), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	// Built as make builds the programs, nearly all of it is in Go's cache.
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "-trimpath", "-overlay", filepath.Join(dir, "overlay.json"), "./" + p.Main}, args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = root, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.Name, err)
	}
	return string(out), nil
}

// instead is the file that calls the function before main does anything.
func (p Program) instead(function string) string {
	folder, name, _ := strings.Cut(function, ".")
	pkg := path.Base(p.folder)
	if p.folder == p.Main {
		pkg = "main"
	}
	return fmt.Sprintf("package %s\n\nimport f %q\n\nfunc init() { f.%s(%s) }\n", pkg, module+"/"+folder, name, p.tree)
}
