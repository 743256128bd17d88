package lab

import (
	"archive/tar"
	"bytes"
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
	if err := l.InstallPackages(ctx, n, "ssh", "openssh-server"); err != nil {
		return err
	}
	if err := n.Push(ctx, "/root/.ssh/authorized_keys", 0o600, publicKey); err != nil {
		return err
	}
	_, err := n.Exec(ctx, "systemctl", "start", "ssh")
	return err
}

// InstallPackages installs Debian's packages on a machine, offline, and starts none of
// their services. The cache keeps them under name.
func (l *Lab) InstallPackages(ctx context.Context, n Node, name string, packages ...string) error {
	folder, err := l.cache.Offline(ctx, n.System(), name, packages...)
	if err != nil {
		return err
	}
	parcel, err := pack(folder, "*.deb")
	if err != nil {
		return err
	}
	const path = "/root/packages.tar"
	if err := n.Push(ctx, path, 0o600, parcel); err != nil {
		return err
	}
	_, err = n.Exec(ctx, "sh", "-euc", installPackages, path)
	return err
}

// installPackages runs dpkg without questions. Configuring the packages makes what belongs
// to one machine, such as the keys of its sshd.
const installPackages = `mkdir "$0.d"
tar -xf "$0" -C "$0.d"
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive dpkg --install "$0.d"/*.deb >&2 </dev/null
rm -r /usr/sbin/policy-rc.d "$0" "$0.d"`

// pack makes a tar file of the files of a folder that match.
func pack(folder, pattern string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s has no %s", folder, pattern))
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		header := tar.Header{Name: filepath.Base(file), Mode: 0o644, Size: int64(len(content))}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return packed.Bytes(), err
}
