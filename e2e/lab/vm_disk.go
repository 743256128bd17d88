package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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

// plug adds a disk with the names disk-<id> for the device, node-<id> for what is behind it.
func (m *vm) plug(ctx context.Context, r *vmRun, d Disk) error {
	path, err := filepath.Abs(d.Path)
	if err != nil {
		return err
	}
	file := fileNode(path)
	if len(d.Faults) > 0 {
		file = faulty(file, d.Faults)
	}
	node := map[string]any{"driver": "raw", "node-name": nodeID(d), "file": file}
	if err := m.addBlock(ctx, r, node, map[string]any{"drive": nodeID(d), "id": deviceID(d), "serial": d.Serial()}); err != nil {
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

// QEMU's ids are short; the part of the volume id that the guest sees will do.
func nodeID(d Disk) string   { return "node-" + d.Serial() }
func deviceID(d Disk) string { return "disk-" + d.Serial() }

// fileNode never flushes: only a crash of the host could tell the difference.
func fileNode(path string) map[string]any {
	return map[string]any{"driver": "file", "filename": path, "cache": map[string]bool{"no-flush": true}}
}

// faulty puts QEMU's blkdebug over a file. The event "none" makes a rule hold
// from the start, for every request that its sector and direction match.
func faulty(file map[string]any, faults []Fault) map[string]any {
	const eio = 5
	var rules []map[string]any
	for _, f := range faults {
		direction := "read"
		if f.Write {
			direction = "write"
		}
		rules = append(rules, map[string]any{
			"event": "none", "iotype": direction, "errno": eio, "sector": f.Sector, "once": f.Once})
	}
	return map[string]any{"driver": "blkdebug", "image": file, "inject-error": rules}
}

func (m *vm) Attach(ctx context.Context, d Disk) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	if run := m.current(); !run.over() {
		if err := m.plug(ctx, run, d); err != nil {
			return fmt.Errorf("node %s: attaching %w", m.spec.Name, err)
		}
		if err := m.waitLink(ctx, d, true); err != nil {
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

// unplug asks the guest for the device, which lets go of it in its own time,
// and then frees the file for another machine.
func (m *vm) unplug(ctx context.Context, r *vmRun, d Disk) error {
	deleted, stop := r.monitor.Watch("DEVICE_DELETED")
	defer stop()
	if err := r.monitor.Do(ctx, "device_del", map[string]string{"id": deviceID(d)}, nil); err != nil {
		return err
	}
	for gone := false; !gone; {
		select {
		case event, open := <-deleted:
			if !open {
				return errors.New("QEMU ended")
			}
			var which struct{ Device string }
			gone = json.Unmarshal(event.Data, &which) == nil && which.Device == deviceID(d)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the guest to let go of it: %w", context.Cause(ctx))
		}
	}
	if err := r.monitor.Do(ctx, "blockdev-del", map[string]string{"node-name": nodeID(d)}, nil); err != nil {
		return err
	}
	return m.waitLink(ctx, d, false)
}

// waitLink waits for udev's work.
func (m *vm) waitLink(ctx context.Context, d Disk, there bool) error {
	return until(ctx, 100*time.Millisecond, func() (bool, error) {
		_, err := m.Exec(ctx, "test", "-e", d.Link())
		if missing := (*ExecError)(nil); errors.As(err, &missing) {
			return !there, nil
		}
		return there, err
	})
}
