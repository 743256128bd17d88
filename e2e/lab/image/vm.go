package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var vmRecipe = recipe{
	name: "vm",
	packages: []string{
		"linux-image-cloud-amd64", "qemu-guest-agent", "busybox-static", "nfs-common",
		// Installing it is tested on the containers: under emulation its maintainer
		// scripts alone take half a minute.
		"nfs-kernel-server",
	},
	files:    []string{"common", "vm"},
	scripts:  []string{"root-extend.sh", "initrd-init.sh"},
	masked:   []string{"masked.txt", "masked-vm.txt"},
	enabled:  []string{"multi-user.target.wants/systemd-networkd.service"},
	unsigned: true,
}

// VM is what a virtual machine boots from. All three are used read-only: the
// disk as the backing file of an overlay.
type VM struct {
	Disk, Kernel, Initrd string
	// Snapshot is the name in the cache for a snapshot of such a machine.
	Snapshot string
}

// VM returns the image for virtual machines.
func (c *Cache) VM(ctx context.Context, s System) (VM, error) {
	return c.vm(ctx, s, vmRecipe)
}

// VMWithEngine is VM with a container engine, as a service that starts with the machine.
func (c *Cache) VMWithEngine(ctx context.Context, s System) (VM, error) {
	r := vmRecipe
	r.name, r.packages = r.name+"-engine", slices.Concat(r.packages, s.engine())
	return c.vm(ctx, s, r)
}

// VMWithKubelet is VMWithEngine for machines that run a kubelet. programs is a folder that is laid
// over the root, stored one whose content is that of /var/lib/containerd. Their paths say what is
// in them, as those of this cache do.
func (c *Cache) VMWithKubelet(ctx context.Context, s System, programs, stored string) (VM, error) {
	return c.vm(ctx, s, vmKubeletRecipe(s), laid{programs, "."}, laid{stored, "var/lib/containerd"})
}

// laid is a folder whose content is laid over a folder of a root.
type laid struct{ from, over string }

func (c *Cache) vm(ctx context.Context, s System, r recipe, also ...laid) (VM, error) {
	base, err := c.base(ctx, s)
	if err != nil {
		return VM{}, err
	}
	key := r.key(s)
	for _, l := range also {
		key = Key(key, l.from, l.over)
	}
	dir, err := c.Get(ctx, s.Named(r.name), key, func(ctx context.Context, dir string) error {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}
		if err := r.buildRoot(ctx, s, base, root); err != nil {
			return err
		}
		if err := bareModules(ctx, root); err != nil {
			return err
		}
		for _, l := range also {
			if err := command(ctx, nil, "cp", "-a", "--", l.from+"/.", filepath.Join(root, l.over)); err != nil {
				return err
			}
		}
		if err := writeBootFiles(ctx, root, vmIn(dir)); err != nil {
			return err
		}
		if err := makeDisk(ctx, root, vmIn(dir).Disk); err != nil {
			return err
		}
		return os.RemoveAll(root)
	})
	img := vmIn(dir)
	img.Snapshot = s.Named("snapshot" + strings.TrimPrefix(r.name, vmRecipe.name))
	return img, err
}

func vmIn(dir string) VM {
	return VM{
		Disk:   filepath.Join(dir, "disk.raw"),
		Kernel: filepath.Join(dir, "vmlinux"),
		Initrd: filepath.Join(dir, "initrd"),
	}
}

// makeDisk turns the root into a sparse disk without a partition table. The
// machine boots by -kernel: what it has under /boot would never be read, but for the kernel's
// configuration, which kubeadm looks for.
func makeDisk(ctx context.Context, root, disk string) error {
	const size = 3 << 30
	boot, err := filepath.Glob(filepath.Join(root, "boot/*"))
	if err != nil {
		return err
	}
	for _, file := range boot {
		if strings.HasPrefix(filepath.Base(file), "config-") {
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	f, err := os.Create(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	return command(ctx, nil, "mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "-d", root, disk)
}

// one finds the only file that a pattern matches.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: want one file, found %d", pattern, len(found))
	}
	return found[0], nil
}
