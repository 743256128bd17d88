package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// InstallSSH installs Debian's openssh-server on a machine, offline, with a public key
// (a line of authorized_keys) that lets root in, and returns when it serves at port 22.
// No machine has it otherwise.
func (l *Lab) InstallSSH(ctx context.Context, n Node, publicKey []byte) error {
	packages, err := l.cache.SSH(ctx)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no packages", packages))
	}
	const folder = "/root/ssh"
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := n.Push(ctx, filepath.Join(folder, filepath.Base(file)), 0o644, content); err != nil {
			return err
		}
	}
	if err := n.Push(ctx, "/root/.ssh/authorized_keys", 0o600, publicKey); err != nil {
		return err
	}
	// dpkg asks nobody, and makes the host's keys.
	_, err = n.Exec(ctx, "sh", "-euc", `DEBIAN_FRONTEND=noninteractive dpkg --install "$0"/*.deb >&2 </dev/null; systemctl start ssh`, folder)
	return err
}
