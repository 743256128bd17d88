package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopDisk is a disk of a container: a loop device of the host, under the
// same name inside, so that what sysfs says about it is true there too.
type loopDisk struct {
	Disk
	device string
}

// diskTable is read by systemd-tmpfiles, at boot through the image's
// lab-disks.service and after every change. A container has no udev and
// starts with an empty /dev, so nodes and links come from here.
const diskTable = "/etc/tmpfiles.d/lab-disks.conf"

var applyDiskTable = []string{"systemd-tmpfiles", "--create", diskTable}

func (n *nspawn) Attach(ctx context.Context, d Disk) error {
	if err := n.plug(d); err != nil {
		return err
	}
	return n.showDisks(ctx)
}

func (n *nspawn) Detach(ctx context.Context, volumeID string) error {
	n.mu.Lock()
	i := slices.IndexFunc(n.disks, func(d loopDisk) bool { return d.VolumeID == volumeID })
	if i < 0 {
		n.mu.Unlock()
		return fmt.Errorf("node %s: has no volume %s", n.spec.Name, volumeID)
	}
	gone := n.disks[i]
	n.mu.Unlock()
	if err := n.lab.ledger.drop(func(e entry) bool {
		return e.Kind == kindLoop && e.Name == gone.device && e.Owner == n.spec.Name
	}); err != nil {
		return fmt.Errorf("node %s: volume %s: %w", n.spec.Name, volumeID, err)
	}
	n.mu.Lock()
	n.disks = slices.Delete(n.disks, i, i+1)
	n.mu.Unlock()
	if !n.current().over() {
		if _, err := n.Exec(ctx, "rm", "-f", gone.Link(), gone.device); err != nil {
			return err
		}
	}
	return n.showDisks(ctx)
}

func (n *nspawn) Extend(_ context.Context, volumeID string, size int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.disks, func(d loopDisk) bool { return d.VolumeID == volumeID })
	if i < 0 {
		return fmt.Errorf("node %s: has no volume %s", n.spec.Name, volumeID)
	}
	if err := errors.Join(os.Truncate(n.disks[i].Path, size), run("losetup", "--set-capacity", n.disks[i].device)); err != nil {
		return fmt.Errorf("node %s: extending volume %s: %w", n.spec.Name, volumeID, err)
	}
	return nil
}

func (n *nspawn) SetFaults(_ context.Context, volumeID string, _ ...Fault) error {
	return fmt.Errorf("node %s: volume %s: faults need a VM", n.spec.Name, volumeID)
}

// plug gives a disk a loop device.
func (n *nspawn) plug(d Disk) error {
	if len(d.Faults) > 0 || d.WriteLog != "" || d.BytesPerSecond > 0 {
		return fmt.Errorf("node %s: volume %s: faults, a write log and a bounded speed need a VM", n.spec.Name, d.VolumeID)
	}
	path, err := filepath.Abs(d.Path)
	if err != nil {
		return err
	}
	e, err := n.lab.ledger.found(func() (entry, error) {
		device, err := attachLoop(path)
		return entry{Kind: kindLoop, Name: device, Backing: loopBacking(device), Owner: n.spec.Name}, err
	})
	if err != nil {
		return fmt.Errorf("node %s: volume %s: %w", n.spec.Name, d.VolumeID, err)
	}
	n.mu.Lock()
	n.disks = append(n.disks, loopDisk{Disk: d, device: e.Name})
	n.mu.Unlock()
	return nil
}

// showDisks makes a running container see the disks that it has now.
func (n *nspawn) showDisks(ctx context.Context) error {
	if err := n.writeDiskTable(); err != nil || n.current().over() {
		return err
	}
	_, err := n.Exec(ctx, applyDiskTable...)
	return err
}

// writeDiskTable replaces the table. The overlay is mounted as long as the
// node exists, and no process inside makes a symlink of this folder.
func (n *nspawn) writeDiskTable() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var table strings.Builder
	table.WriteString("# Written by the lab: the disks of this machine.\n")
	for _, d := range n.disks {
		var st syscall.Stat_t
		if err := syscall.Stat(d.device, &st); err != nil {
			return fmt.Errorf("node %s: %s: %w", n.spec.Name, d.device, err)
		}
		fmt.Fprintf(&table, "b %s 0660 root disk - %d:%d\n", d.device, unix.Major(st.Rdev), unix.Minor(st.Rdev))
		fmt.Fprintf(&table, "L+ %s - - - - ../../%s\n", d.Link(), filepath.Base(d.device))
	}
	return writeFile(filepath.Join(n.root(), diskTable), []byte(table.String()), 0o644)
}
