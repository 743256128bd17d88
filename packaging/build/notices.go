package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// linked are the modules in a program, by its build information; Go's standard library is
// the module "std".
func linked(program string) ([]module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	modules := []module{{Path: "std", Version: info.GoVersion}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			return nil, fmt.Errorf("%s: %s is replaced: neither notices nor SBOM know how to name that", program, dep.Path)
		}
		modules = append(modules, module{Path: dep.Path, Version: dep.Version})
	}
	return modules, nil
}

// module is a Go module in a program.
type module struct{ Path, Version string }

// noticeFile is the name of a file that has to go with a copy of the code.
var noticeFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice)`)

// writeNotices writes what the licenses of a program's modules and of the files embedded in it ask
// for: their texts and notices. A module without any is an error.
func writeNotices(ctx context.Context, file, program string, arches []string) error {
	var modules []module
	for _, arch := range arches {
		more, err := linked(path(program, arch))
		if err != nil {
			return err
		}
		modules = append(modules, more...)
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	modules = slices.Compact(modules)
	folders, err := moduleFolders(ctx)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, m := range modules {
		files, err := filepath.Glob(filepath.Join(folders[m.Path], "*"))
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(file string) bool { return !noticeFile.MatchString(filepath.Base(file)) })
		if folders[m.Path] == "" || len(files) == 0 {
			return fmt.Errorf("%s: its folder %q has no license", m.Path, folders[m.Path])
		}
		for _, file := range files {
			notice, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "==== %s %s: %s\n\n%s\n\n", m.Path, m.Version, filepath.Base(file), bytes.TrimSpace(notice))
		}
	}
	files, err := vendoredBy(program)
	if err != nil {
		return err
	}
	for _, v := range files {
		notice, err := os.ReadFile(v.LicenseFile)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "==== npm %s %s: %s\n\n%s\n\n", v.Package, v.Version, v.From, bytes.TrimSpace(notice))
	}
	return writeCompressed(file, text.Bytes())
}

// moduleFolders are the folders of the sources of all modules, and of Go.
func moduleFolders(ctx context.Context) (map[string]string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	folders := map[string]string{"std": string(bytes.TrimSpace(root))}
	list, err := exec.CommandContext(ctx, "go", "list", "-m", "-json=Path,Dir", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var m struct{ Path, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		folders[m.Path] = m.Dir
	}
}

// writeCompressed writes a file as Debian wants its documentation: with the best compression
// and no time in it.
func writeCompressed(file string, content []byte) error {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, compressed.Bytes(), 0o644)
}
