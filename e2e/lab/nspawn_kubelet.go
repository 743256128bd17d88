package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func (l *Lab) kubeletLayers(ctx context.Context, s Spec) ([]string, error) {
	folders, err := l.cache.Kubelet(ctx, s.System)
	if s.Kubelet.Programs != "" {
		folders = append([]string{s.Kubelet.Programs}, folders...)
	}
	return folders, err
}

// prepareKubelet writes what kubelet and kubeadm look for on a machine.
func (n *nspawn) prepareKubelet() error {
	for path, text := range map[string][]byte{
		// The machine has no DMI, so kubelet makes this the Node's systemUUID.
		"etc/machine-id": []byte(strings.ReplaceAll(n.spec.ServerID, "-", "") + "\n"),
		"etc/hosts":      n.spec.hosts(),
		// Nothing serves there, but CoreDNS does not start without a name server.
		"etc/resolv.conf": fmt.Appendf(nil, "nameserver %s\n", Gateway),
	} {
		if err := writeFile(filepath.Join(n.root(), path), text, 0o644); err != nil {
			return err
		}
	}
	if n.spec.Kubelet.Containerd == "" {
		return nil
	}
	return copyContainerd(n.spec.Kubelet.Containerd, filepath.Join(n.dir, "containerd"))
}

// KeepContainerd copies what the containerd of a stopped node has stored into a folder, which
// exists: as Kubelet.Containerd of other machines.
func (l *Lab) KeepContainerd(n Node, dir string) error {
	return copyContainerd(filepath.Join(l.dir, n.Name(), "containerd"), dir)
}

// copyContainerd makes hard links, if it can: containerd changes no file of an image, but
// its databases.
func copyContainerd(from, to string) error {
	var a, b unix.Stat_t
	if err := errors.Join(unix.Stat(from, &a), unix.Stat(to, &b)); err != nil {
		return fmt.Errorf("copying what containerd has stored, from %s to %s: %w", from, to, err)
	}
	how := "-a"
	if a.Dev == b.Dev {
		how = "-al"
	}
	if err := run("cp", how, from+"/.", to); err != nil {
		return err
	}
	databases, err := filepath.Glob(filepath.Join(to, "*", "*.db"))
	for _, path := range databases {
		err = errors.Join(err, ownCopy(path))
	}
	return err
}

// ownCopy replaces a file by a copy of it.
func ownCopy(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
