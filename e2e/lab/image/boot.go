package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// initrdModules are those that initrd-init.sh loads; if the kernel has one built in,
// there is no file and nothing to load.
var initrdModules = []string{
	"virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk",
}

// writeBootFiles takes kernel and initrd out of the root.
func writeBootFiles(ctx context.Context, root string, to VM) error {
	packed, err := one(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil {
		return err
	}
	bzImage, err := os.ReadFile(packed)
	if err != nil {
		return err
	}
	kernel, err := unpackKernel(ctx, bzImage)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(packed), err)
	}
	if err := os.WriteFile(to.Kernel, kernel, 0o644); err != nil {
		return err
	}
	scratch := to.Initrd + ".d"
	if err := fillInitrd(root, scratch); err != nil {
		return err
	}
	if err := packInitrd(ctx, scratch, to.Initrd); err != nil {
		return err
	}
	return os.RemoveAll(scratch)
}

// unpackKernel returns the ELF kernel inside a bzImage: QEMU starts that
// directly (PVH), which spares an emulated machine the unpacking. Offsets are
// those of the x86 boot protocol (Documentation/arch/x86/boot.rst); the last four bytes of
// the payload are its unpacked size.
func unpackKernel(ctx context.Context, bzImage []byte) ([]byte, error) {
	const setupSects, magic, payloadOffset, payloadLength = 0x1f1, 0x202, 0x248, 0x24c
	if len(bzImage) < 0x250 || !bytes.Equal(bzImage[magic:magic+4], []byte("HdrS")) {
		return nil, fmt.Errorf("is no bzImage")
	}
	start := (int(bzImage[setupSects])+1)*512 + int(binary.LittleEndian.Uint32(bzImage[payloadOffset:]))
	end := start + int(binary.LittleEndian.Uint32(bzImage[payloadLength:]))
	if start > end-4 || end > len(bzImage) {
		return nil, fmt.Errorf("its header points outside of it")
	}
	payload := bzImage[start : end-4]
	for magic, program := range unpackers {
		if !bytes.HasPrefix(payload, []byte(magic)) {
			continue
		}
		unpack := exec.CommandContext(ctx, program, "-dc")
		unpack.Stdin = bytes.NewReader(payload)
		kernel, err := unpack.Output()
		if err == nil && !bytes.HasPrefix(kernel, []byte("\x7fELF")) {
			err = errors.New("what is in it is no ELF file")
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking the kernel with %s: %w", program, err)
		}
		return kernel, nil
	}
	return nil, fmt.Errorf("it is packed in an unknown way, and begins with %#x", payload[:8])
}

// unpackers are the programs for what a payload begins with: Debian 12 packs its kernel with
// LZ4, Debian 13 with Zstandard.
var unpackers = map[string]string{"\x02!L\x18": "lz4", "\x28\xb5\x2f\xfd": "zstd"}

func fillInitrd(root, dir string) error {
	for _, d := range []string{"bin", "modules", "proc", "sys", "dev", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	script, err := data.ReadFile("initrd-init.sh")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "init"), script, 0o755); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(root, "bin/busybox"), filepath.Join(dir, "bin/busybox"), 0o755); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, m := range initrdModules {
		wanted[m+".ko"] = true
	}
	return filepath.WalkDir(filepath.Join(root, "lib/modules"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !wanted[d.Name()] {
			return err
		}
		return copyFile(path, filepath.Join(dir, "modules", d.Name()), 0o644)
	})
}

func packInitrd(ctx context.Context, dir, initrd string) error {
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		return err
	}
	pack := exec.CommandContext(ctx, "cpio", "--quiet", "--create", "--format=newc", "--owner=0:0")
	pack.Dir = dir
	pack.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	packed, err := pack.Output()
	if err != nil {
		return fmt.Errorf("packing the initrd with cpio: %w", err)
	}
	return os.WriteFile(initrd, packed, 0o644)
}

func copyFile(from, to string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode)
}
