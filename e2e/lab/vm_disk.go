package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// plugAll gives a machine that stands still its interface, its disks and its
// seed. Before the first instruction of a boot that is no hot-plugging: the
// firmware finds them in place. The disks come first, so that they have the
// names (vdb, vdc …) that they have in a cloud.
func (m *vm) plugAll(ctx context.Context, r *vmRun) error {
	if m.bare {
		return nil
	}
	err := r.monitor.Do(ctx, "netdev_add", map[string]any{
		"type": "tap", "id": "net", "ifname": m.tap(), "script": "no", "downscript": "no"}, nil)
	if err != nil {
		return err
	}
	// No romfile: nothing boots from the network.
	err = r.monitor.Do(ctx, "device_add", map[string]any{
		"driver": "virtio-net-pci", "id": "nic", "netdev": "net", "mac": m.mac(), "romfile": ""}, nil)
	if err != nil {
		return err
	}
	for _, d := range m.disks {
		if err := m.plug(ctx, r, d); err != nil {
			return err
		}
	}
	seed := map[string]any{"driver": "raw", "node-name": "seed", "read-only": true, "file": fileNode(m.path("seed.iso"))}
	return m.addBlock(ctx, r, seed, map[string]any{"drive": "seed", "id": "seed-disk"})
}

// plug adds a disk and what is behind it.
func (m *vm) plug(ctx context.Context, r *vmRun, d Disk) error {
	path, err := filepath.Abs(d.Path)
	if err != nil {
		return err
	}
	names := namesOf(d)
	file, err := bottom(ctx, r, d, path)
	if err == nil {
		file["node-name"] = names.file
		err = r.monitor.Do(ctx, "blockdev-add", file, nil)
	}
	below := ""
	if err == nil {
		below, err = addFaults(ctx, r, names, d.Faults)
	}
	if err == nil {
		node := map[string]any{"driver": "raw", "node-name": names.node, "file": below}
		err = m.addBlock(ctx, r, node, map[string]any{"drive": names.node, "id": names.device, "serial": d.Serial()})
	}
	if err != nil {
		return fmt.Errorf("volume %s: %w", d.VolumeID, err)
	}
	return nil
}

func (m *vm) addBlock(ctx context.Context, r *vmRun, node, device map[string]any) error {
	if err := r.monitor.Do(ctx, "blockdev-add", node, nil); err != nil {
		return err
	}
	device["driver"] = "virtio-blk-pci"
	return r.monitor.Do(ctx, "device_add", device, nil)
}

func (m *vm) Attach(ctx context.Context, d Disk) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	if run := m.current(); !run.over() {
		if err := m.plug(ctx, run, d); err != nil {
			return fmt.Errorf("node %s: attaching %w", m.spec.Name, err)
		}
		if err := m.waitLinked(ctx, d, m.twins(d)+1); err != nil {
			return fmt.Errorf("node %s: attaching volume %s: waiting for %s: %w", m.spec.Name, d.VolumeID, d.Link(), err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disks = append(m.disks, d)
	return nil
}

func (m *vm) Detach(ctx context.Context, volumeID string) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	i := slices.IndexFunc(m.disks, func(d Disk) bool { return d.VolumeID == volumeID })
	if i < 0 {
		return fmt.Errorf("node %s: has no volume %s", m.spec.Name, volumeID)
	}
	if run := m.current(); !run.over() {
		if err := m.unplug(ctx, run, m.disks[i]); err != nil {
			return fmt.Errorf("node %s: detaching volume %s: %w", m.spec.Name, volumeID, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disks = slices.Delete(slices.Clone(m.disks), i, i+1)
	return nil
}

func (m *vm) Extend(ctx context.Context, volumeID string, size int64) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	i := slices.IndexFunc(m.disks, func(d Disk) bool { return d.VolumeID == volumeID })
	if i < 0 {
		return fmt.Errorf("node %s: has no volume %s", m.spec.Name, volumeID)
	}
	extend := func() error { return os.Truncate(m.disks[i].Path, size) }
	if run := m.current(); !run.over() {
		extend = func() error {
			return run.monitor.Do(ctx, "block_resize", map[string]any{"node-name": namesOf(m.disks[i]).node, "size": size}, nil)
		}
	}
	if err := extend(); err != nil {
		return fmt.Errorf("node %s: extending volume %s: %w", m.spec.Name, volumeID, err)
	}
	return nil
}

// unplug asks the guest for the device, which lets go of it in its own time,
// and then frees the file for another machine.
func (m *vm) unplug(ctx context.Context, r *vmRun, d Disk) error {
	deleted, stop := r.monitor.Watch("DEVICE_DELETED")
	defer stop()
	names := namesOf(d)
	if err := r.monitor.Do(ctx, "device_del", map[string]string{"id": names.device}, nil); err != nil {
		return err
	}
	for gone := false; !gone; {
		select {
		case event, open := <-deleted:
			if !open {
				return errors.New("QEMU ended")
			}
			var which struct{ Device string }
			gone = json.Unmarshal(event.Data, &which) == nil && which.Device == names.device
		case <-ctx.Done():
			return fmt.Errorf("waiting for the guest to let go of it: %w", context.Cause(ctx))
		}
	}
	faults, err := faultNodes(ctx, r, names)
	if err != nil {
		return err
	}
	if err := dropNodes(ctx, r, slices.Concat([]string{names.node}, faults, []string{names.file})...); err != nil {
		return err
	}
	if slices.ContainsFunc(m.disks, func(other Disk) bool { return other.VolumeID != d.VolumeID && other.Link() == d.Link() }) {
		return nil // the link is the other one's now
	}
	return m.waitUnlinked(ctx, d)
}

// waitLinked waits until the guest has so many disks of d's serial number, and udev's link to
// one of them.
func (m *vm) waitLinked(ctx context.Context, d Disk, disks int) error {
	return m.waitFor(ctx, `test -e "$1"; test "$(grep -lxF "$2" /sys/block/vd*/serial | wc -l)" = "$3"`, d.Link(), d.Serial(), strconv.Itoa(disks))
}

// waitUnlinked waits until udev has removed the link to d.
func (m *vm) waitUnlinked(ctx context.Context, d Disk) error {
	return m.waitFor(ctx, `test ! -e "$1"`, d.Link())
}

// waitFor waits until a script of sh -eu succeeds in the guest.
func (m *vm) waitFor(ctx context.Context, script string, args ...string) error {
	return until(ctx, 100*time.Millisecond, func() (bool, error) {
		_, err := m.Exec(ctx, append([]string{"sh", "-euc", script, "sh"}, args...)...)
		if failed := (*ExecError)(nil); errors.As(err, &failed) {
			return false, nil
		}
		return true, err
	})
}

// twins is how many disks of the machine have the serial number of d.
func (m *vm) twins(d Disk) (n int) {
	for _, other := range m.disks {
		if other.Serial() == d.Serial() {
			n++
		}
	}
	return n
}
