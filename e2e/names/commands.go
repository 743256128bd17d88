package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// probes are the expressions that make the command trees, by the folders that have them.
// The trees are not exported, and programs must not grow for this list: an overlay that
// only this build sees adds a file to the folder, which prints instead of running.
var probes = []struct{ program, folder, pkg, tree string }{
	{"./agent", "agent", "main", "command()"},
	{"./controller", "controller", "main", "command()"},
	{"./controller/hitchctl", "controller/hitchctl/command", "command", "new(app).root()"},
}

func commands(ctx context.Context, s *source) (list []string, err error) {
	for _, probe := range probes {
		code := fmt.Sprintf("package %s\n\nimport %q\n\nfunc init() { probe.Commands(%s) }\n", probe.pkg, module+"/e2e/names/probe", probe.tree)
		out, err := s.runWith(ctx, probe.program, filepath.Join(s.root, probe.folder, "names_probe.go"), code)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", probe.program, err)
		}
		list = append(list, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	return list, nil
}

// runWith runs a program that has one more file.
func (s *source) runWith(ctx context.Context, program, path, code string) (string, error) {
	dir, err := os.MkdirTemp("", "nodehitch-names-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	replace := map[string]string{path: filepath.Join(dir, "probe.go")}
	maps.Copy(replace, s.replace)
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{"probe.go": []byte(code), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-overlay", filepath.Join(dir, "overlay.json"), program)
	cmd.Dir, cmd.Stderr = s.root, os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
