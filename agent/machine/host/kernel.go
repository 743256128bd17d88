package host

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel is what of the running kernel decides whether Pods can run.
type Kernel interface {
	// Setting is the value of a kernel parameter, such as net.ipv4.ip_forward; fs.ErrNotExist if
	// the kernel has none of that name.
	Setting(name string) (string, error)
	// Set sets a parameter until the next boot.
	Set(name, value string) error
	// Load loads modules, and those that they need.
	Load(ctx context.Context, modules ...string) error
	// FileSystem reports whether the kernel can mount a file system of this type now.
	FileSystem(name string) (bool, error)
	// Swaps are the devices and files that the machine swaps to.
	Swaps() ([]string, error)
	// Addresses are those of the machine's interfaces, by the interface's name.
	Addresses() (map[string][]netip.Addr, error)
}

type linuxKernel struct {
	proc    string
	run     *Runner
	changes *Changes
}

func (k *linuxKernel) path(name string) string {
	return filepath.Join(k.proc, "sys", strings.ReplaceAll(name, ".", "/"))
}

func (k *linuxKernel) Setting(name string) (string, error) {
	content, err := os.ReadFile(k.path(name))
	return strings.TrimSpace(string(content)), err
}

func (k *linuxKernel) Set(name, value string) error {
	k.changes.File()
	// Not created: where the kernel has no such parameter, there is no file.
	f, err := os.OpenFile(k.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

func (k *linuxKernel) Load(ctx context.Context, modules ...string) error {
	_, err := k.run.Run(ctx, modprobeCommand(modules...))
	return err
}

func (k *linuxKernel) FileSystem(name string) (bool, error) {
	// A line is the type, after a tab; before that, "nodev" if it needs no device.
	content, err := os.ReadFile(filepath.Join(k.proc, "filesystems"))
	return slices.Contains(strings.Fields(string(content)), name), err
}

func (k *linuxKernel) Swaps() ([]string, error) {
	f, err := os.Open(filepath.Join(k.proc, "swaps"))
	if os.IsNotExist(err) { // a kernel without swap
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 0 && strings.HasPrefix(fields[0], "/") {
			all = append(all, fields[0])
		}
	}
	return all, lines.Err()
}

func (k *linuxKernel) Addresses() (map[string][]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing the machine's interfaces: %w", err)
	}
	all := map[string][]netip.Addr{}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil { // it is gone meanwhile
			continue
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				all[i.Name] = append(all[i.Name], prefix.Addr().Unmap())
			}
		}
	}
	return all, nil
}
