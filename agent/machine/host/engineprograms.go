package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

type enginePrograms struct{ run *Runner }

// containerdVersion matches "containerd github.com/containerd/containerd 1.6.20~ds1 …";
// upstream's own builds put a v before the version.
var containerdVersion = regexp.MustCompile(`^containerd \S+ v?(\d+\.\d+(\.\d+)?)`)

func (p *enginePrograms) ContainerdVersion(ctx context.Context) (string, error) {
	said, err := p.run.Run(ctx, containerdVersionCommand())
	if err != nil {
		return "", err
	}
	found := containerdVersion.FindStringSubmatch(said.Stdout)
	if found == nil {
		return "", fmt.Errorf("containerd --version prints %.100q, which has no version", said.Stdout)
	}
	return found[1], nil
}

func (p *enginePrograms) ContainerdConfig(ctx context.Context, path string, content []byte) ([]byte, error) {
	if content != nil {
		file, err := writeBeside(path, content)
		if err != nil {
			return nil, err
		}
		defer os.Remove(file) //nolint:errcheck // its name ends in no .toml, so that nothing imports it
		path = file
	}
	said, err := p.run.Run(ctx, containerdConfigCommand(path))
	return []byte(said.Stdout), err
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
