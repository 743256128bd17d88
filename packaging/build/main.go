// Command build makes the packages of a release: deb and rpm, a wheel for Python, their checksums,
// and what the programs are made of (SBOM). `make package` runs it, after it has built the programs.
//
// The same programs with the same SOURCE_DATE_EPOCH give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/packaging/programs"
	"github.com/nodehitch/nodehitch/packaging/python"
)

// maintainer signs the packages.
const maintainer = "The nodehitch authors <nodehitch@users.noreply.github.com>"

func main() {
	build := flag.String("version", "", "version of the `build`, as git describe says it")
	arches := flag.String("arches", "amd64 arm64", "architectures, with blanks between them")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: build -version BUILD [-arches LIST]\n\nRun it in the root of the source tree. The programs are dist/package/PROGRAM-ARCH.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 0 || *build == "" {
		flag.Usage()
		os.Exit(2)
	}
	syscall.Umask(0o022) // nfpm takes the modes of the Python tree as they are
	if err := run(context.Background(), *build, strings.Fields(*arches)); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

// The packages go into dist. What they are made of is in stage, which nfpm.yaml of each
// package names.
const (
	dist  = "dist"
	stage = "dist/package"
)

// packages are those of a build.
type packages struct {
	build   string // as the programs say it
	version string // as package managers order it
	at      time.Time
	arches  []string
}

func run(ctx context.Context, build string, arches []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(seconds, 0).UTC()
	p := packages{build: build, version: packageVersion(build, at), at: at, arches: arches}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	files, err := p.pack(ctx)
	if err != nil {
		return err
	}
	wheel, err := python.Wheel(filepath.Join(stage, "python"), dist, p.version, p.at)
	if err != nil {
		return err
	}
	sbom := "nodehitch_" + p.version + ".spdx.json"
	if err := writeSBOM(filepath.Join(dist, sbom), p); err != nil {
		return err
	}
	return writeChecksums(append(files, wheel, sbom))
}

// path is where a program for an architecture is.
func path(program, arch string) string { return filepath.Join(stage, program+"-"+arch) }

// prepare writes what the packages have besides the programs.
func (p packages) prepare(ctx context.Context) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(stage, "notices"), 0o755); err != nil {
		return err
	}
	for _, program := range programs.All {
		// It runs in the root of the tree.
		if _, err := program.Run(ctx, root, "packaging/documents.Write", stage, p.version, strconv.FormatInt(p.at.Unix(), 10)); err != nil {
			return err
		}
		if err := writeNotices(ctx, filepath.Join(stage, "notices", program.Name+".gz"), program.Name, p.arches); err != nil {
			return err
		}
	}
	if err := compressPages(filepath.Join(stage, "man")); err != nil {
		return err
	}
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	releases, err := readChangelog(string(text))
	if err != nil {
		return err
	}
	return errors.Join(
		writeChangelog(filepath.Join(stage, "changelog.yaml"), forBuild(releases, p.version, p.build, p.at)),
		python.Write(".", filepath.Join(stage, "python"), p.version),
		os.WriteFile(filepath.Join(stage, install.Unit), install.PackagedUnit(config.DefaultFile), 0o644),
	)
}

func compressPages(folder string) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := errors.Join(writeCompressed(page+".gz", text), os.Remove(page)); err != nil {
			return err
		}
	}
	return nil
}

// pack makes the packages by nfpm and returns their names.
func (p packages) pack(ctx context.Context) (files []string, err error) {
	tool := exec.CommandContext(ctx, "go", "-C", "packaging/nfpm", "tool", "-n", "nfpm")
	tool.Stderr = os.Stderr
	out, err := tool.Output()
	if err != nil {
		return nil, fmt.Errorf("building nfpm: %w", err)
	}
	nfpm := strings.TrimSpace(string(out))
	for _, name := range []string{"nodehitch-agent", "nodehitch-agents", "nodehitch-controller", "hitchctl", "python3-nodehitch-tacker"} {
		arches := p.arches
		// One has the agents for all architectures, one has none.
		if name == "nodehitch-agents" || name == "python3-nodehitch-tacker" {
			arches = []string{"all"}
		}
		for _, arch := range arches {
			for _, format := range []string{"deb", "rpm"} {
				file, err := p.packOne(ctx, nfpm, name, arch, format)
				if err != nil {
					return nil, fmt.Errorf("%s for %s as %s: %w", name, arch, format, err)
				}
				files = append(files, file)
			}
		}
	}
	return files, nil
}

func (p packages) packOne(ctx context.Context, nfpm, name, arch, format string) (file string, err error) {
	cmd := exec.CommandContext(ctx, nfpm, "package", "--config", filepath.Join("packaging", name, "nfpm.yaml"), "--packager", format, "--target", dist)
	cmd.Env = append(os.Environ(), "ARCH="+arch, "VERSION="+p.version, "MAINTAINER="+maintainer)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	_, made, found := strings.Cut(strings.TrimSpace(string(out)), "created package: ")
	if !found {
		return "", fmt.Errorf("nfpm names no package:\n%s", out)
	}
	return filepath.Base(made), nil
}

// writeChecksums writes the checksums of the files, as sha256sum -c reads them.
func writeChecksums(files []string) error {
	slices.Sort(files)
	var sums strings.Builder
	for _, file := range files {
		digest, err := digestOf(filepath.Join(dist, file))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", digest, file)
	}
	return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
