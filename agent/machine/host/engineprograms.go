package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type enginePrograms struct {
	run *Runner

	version, config answer // containerd's
}

// containerdVersion matches "containerd github.com/containerd/containerd 1.6.20~ds1 …";
// upstream's own builds put a v before the version.
var containerdVersion = regexp.MustCompile(`^containerd \S+ v?(\d+\.\d+(\.\d+)?)`)

func (p *enginePrograms) ContainerdVersion(ctx context.Context) (string, error) {
	return p.version.get("containerd", "", func() (string, bool, error) {
		said, err := p.run.Run(ctx, containerdVersionCommand())
		if err != nil {
			return "", false, err
		}
		found := containerdVersion.FindStringSubmatch(said.Stdout)
		if found == nil {
			return "", false, fmt.Errorf("containerd --version prints %.100q, which has no version", said.Stdout)
		}
		return found[1], true, nil
	})
}

func (p *enginePrograms) ContainerdConfig(ctx context.Context, path string, content []byte) ([]byte, error) {
	if content == nil {
		return p.fileConfig(ctx, path)
	}
	file, err := writeBeside(path, content)
	if err != nil {
		return nil, err
	}
	defer os.Remove(file) //nolint:errcheck // its name ends in no .toml, so that nothing imports it
	said, err := p.run.Run(ctx, containerdConfigCommand(file))
	return []byte(said.Stdout), err
}

// fileConfig remembers what containerd makes of a file that imports no others.
func (p *enginePrograms) fileConfig(ctx context.Context, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dump, err := p.config.get("containerd", path+"\x00"+string(content), func() (string, bool, error) {
		said, err := p.run.Run(ctx, containerdConfigCommand(path))
		after, unread := os.ReadFile(path)
		same := unread == nil && bytes.Equal(content, after)
		return said.Stdout, same && importsNothing(path, content, said.Stdout), err
	})
	return []byte(dump), err
}

var (
	// noImports is how `containerd config default` writes that a file imports nothing.
	noImports = regexp.MustCompile(`(?m)^imports = \[\]$`)
	// mayImport finds the key in any spelling that a version of containerd accepts.
	mayImport = regexp.MustCompile(`(?i)imports|\\u`)
	// printedImports finds the imports in a dump. containerd 1 prints the files that it has read,
	// among them the first; containerd 2 prints the patterns, and from 2.2 that of
	// /etc/containerd/conf.d even if the file does not have it.
	printedImports = regexp.MustCompile(`(?m)^imports = (.*)$`)
)

// importsNothing is false in doubt: a file that is imported can change or come while the one at
// path stays the same.
func importsNothing(path string, content []byte, dump string) bool {
	printed := printedImports.FindStringSubmatch(dump)
	return !mayImport.Match(noImports.ReplaceAll(content, nil)) &&
		printed != nil && slices.Contains([]string{"[]", `["` + path + `"]`}, printed[1])
}

// writeBeside writes a file into the directory of path, where relative imports are the
// same, or into the temporary one if that does not exist.
func writeBeside(path string, content []byte) (string, error) {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = ""
	}
	file, err := os.CreateTemp(dir, ".nodehitch-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func (p *enginePrograms) ValidateDocker(ctx context.Context, daemonJSON []byte) error {
	file, err := os.CreateTemp("", "nodehitch-daemon-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // a file of some bytes in /tmp
	_, err = file.Write(daemonJSON)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = p.run.Run(ctx, validateDockerCommand(file.Name()))
	refusal := Refusal(err)
	if errors.Is(err, errNotInstalled) || refusal != nil && strings.Contains(refusal.Output, "unknown flag: --validate") {
		return nil
	}
	return err
}
