package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// disks are the block devices as sysfs and udev's links show them.
type disks struct {
	paths  Paths
	run    *Runner
	mounts Mounts
}

// ByVolumeID returns the disks that udev's links name by the volume's id, and those with the
// same serial number: for two such disks, udev makes only one link. A disk without a link is not
// found, because udev has not processed it yet.
func (d *disks) ByVolumeID(id string) ([]Disk, error) {
	var found []Disk
	add := func(disk Disk) {
		if !slices.ContainsFunc(found, func(other Disk) bool { return other.Number == disk.Number }) {
			found = append(found, disk)
		}
	}
	for _, name := range byIDNames(id) {
		path := filepath.Join(d.paths.ByID, name)
		disk, err := d.at(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // no such link, or its device is gone
		case err != nil:
			return nil, fmt.Errorf("inspecting %s: %w", path, err)
		}
		add(disk)
	}
	if len(found) == 0 {
		return nil, nil
	}
	twins, err := d.bySerial(id)
	if err != nil {
		return nil, err
	}
	for _, disk := range twins {
		add(disk)
	}
	return found, nil
}

// bySerial finds disks by the serial numbers in sysfs.
func (d *disks) bySerial(id string) ([]Disk, error) {
	dir := filepath.Join(d.paths.Sys, "class/block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the block devices: %w", err)
	}
	var found []Disk
	for _, entry := range entries {
		serial := serialOf(filepath.Join(dir, entry.Name()))
		if serial != id && serial != id[:min(20, len(id))] {
			continue
		}
		disk, err := d.named(entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("inspecting the block device %s: %w", entry.Name(), err)
		}
		found = append(found, disk)
	}
	return found, nil
}

// serialOf is the serial number of a virtio disk, or that of a SCSI disk (the vital
// product data page 80, SPC-4 7.8.16: four bytes, then the number), "" for others.
func serialOf(dir string) string {
	if text, err := os.ReadFile(filepath.Join(dir, "serial")); err == nil {
		return strings.TrimSpace(string(text))
	}
	page, err := os.ReadFile(filepath.Join(dir, "device/vpd_pg80"))
	if err != nil || len(page) < 4 {
		return ""
	}
	return strings.Trim(string(page[4:]), " \x00\n")
}

// at is the disk that a path leads to.
func (d *disks) at(path string) (Disk, error) {
	node, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Disk{}, err
	}
	var st unix.Stat_t
	if err := unix.Stat(node, &st); err != nil {
		return Disk{}, &fs.PathError{Op: "stat", Path: node, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Disk{}, fmt.Errorf("%s is not a block device", node)
	}
	disk := Disk{Path: path, Node: node, Number: number(st.Rdev)}
	return disk, d.measure(&disk)
}

// measure fills in the facts from sysfs; fs.ErrNotExist if the kernel no longer has the
// disk.
func (d *disks) measure(disk *Disk) error {
	dir := filepath.Join(d.paths.Sys, "dev/block", disk.Number.String())
	sectors, err := readNumber(filepath.Join(dir, "size"))
	if err != nil {
		return err
	}
	disk.Size = int64(sectors) * 512 // always in units of 512 bytes
	disk.Sequence, err = readNumber(filepath.Join(dir, "diskseq"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an older kernel, or a partition
	}
	return err
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63)
}

// without are devices that never contain a filesystem of ours: memory, floppies (slow to read)
// and optical drives.
var without = []string{"ram", "zram", "fd", "sr"}

func (d *disks) All() ([]Disk, error) {
	entries, err := os.ReadDir(filepath.Join(d.paths.Sys, "class/block"))
	if err != nil {
		return nil, fmt.Errorf("listing the block devices: %w", err)
	}
	var all []Disk
	for _, entry := range entries {
		name := entry.Name()
		if slices.ContainsFunc(without, func(prefix string) bool { return isNumbered(name, prefix) }) {
			continue
		}
		disk, err := d.named(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed in between
		}
		if err != nil {
			return nil, fmt.Errorf("inspecting the block device %s: %w", name, err)
		}
		if disk.Size > 0 {
			all = append(all, disk)
		}
	}
	return all, nil
}

func isNumbered(name, prefix string) bool {
	rest, found := strings.CutPrefix(name, prefix)
	_, err := strconv.Atoi(rest)
	return found && err == nil
}

// named is the disk with this name in sysfs.
func (d *disks) named(name string) (Disk, error) {
	text, err := os.ReadFile(filepath.Join(d.paths.Sys, "class/block", name, "dev"))
	if err != nil {
		return Disk{}, err
	}
	major, minor, _ := strings.Cut(strings.TrimSpace(string(text)), ":")
	ma, errMajor := strconv.ParseUint(major, 10, 32)
	mi, errMinor := strconv.ParseUint(minor, 10, 32)
	if err := errors.Join(errMajor, errMinor); err != nil {
		return Disk{}, err
	}
	// sysfs writes ! for the / of names such as cciss/c0d0.
	node := filepath.Join(d.paths.Dev, strings.ReplaceAll(name, "!", "/"))
	disk := Disk{Path: node, Node: node, Number: Number{uint32(ma), uint32(mi)}}
	return disk, d.measure(&disk)
}

func (d *disks) Use(disk Disk) (Use, error) {
	dir := filepath.Join(d.paths.Sys, "dev/block", disk.Number.String())
	var use Use
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Use{}, fmt.Errorf("finding what uses %s: %w", disk.Path, err)
	}
	for _, entry := range entries {
		if _, err := os.Stat(filepath.Join(dir, entry.Name(), "partition")); err == nil {
			use.Partitions = append(use.Partitions, entry.Name())
		}
	}
	holders, err := os.ReadDir(filepath.Join(dir, "holders"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Use{}, fmt.Errorf("finding what uses %s: %w", disk.Path, err)
	}
	for _, holder := range holders {
		use.Holders = append(use.Holders, holder.Name())
	}
	if use.Swap, err = d.isSwap(disk); err != nil {
		return Use{}, err
	}
	mounts, err := d.mounts.List()
	if err != nil {
		return Use{}, err
	}
	for _, m := range mounts {
		if m.Device == disk.Number || d.isSource(m, disk) {
			use.Mounts = append(use.Mounts, m)
		}
	}
	return use, nil
}

// isSource finds the disk under a mount whose filesystem has a number of its own,
// such as btrfs.
func (d *disks) isSource(m Mount, disk Disk) bool {
	if !strings.HasPrefix(m.Source, d.paths.Dev+"/") {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(m.Source, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && number(st.Rdev) == disk.Number
}

func (d *disks) isSwap(disk Disk) (bool, error) {
	text, err := os.ReadFile(filepath.Join(d.paths.Proc, "swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a kernel without swap
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		path, _, _ := strings.Cut(line, " ")
		var st unix.Stat_t
		if strings.HasPrefix(path, "/") && unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && number(st.Rdev) == disk.Number {
			return true, nil
		}
	}
	return false, nil
}

// Announce sends a change event, which makes udev probe the disk and create the links by
// UUID. udev's own watch of the device may miss what mkfs wrote.
func (d *disks) Announce(ctx context.Context, disk Disk) error {
	if _, err := os.Stat(d.paths.UdevControl); err != nil {
		return nil //nolint:nilerr // there is no udev
	}
	_, err := d.run.Run(ctx, announceCommand(disk.Node))
	return err
}
