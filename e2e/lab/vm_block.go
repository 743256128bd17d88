package lab

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// blockNames are what QEMU calls a disk: the device in the machine, the node that
// it reads and writes, and the file at the bottom. While the disk has faults, a node
// whose name begins with faults makes them in between. The names are made from the whole
// volume id; the machine sees only a part of it.
type blockNames struct{ device, node, file, faults string }

// QEMU's names of nodes have 31 characters at most.
func namesOf(d Disk) blockNames {
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(d.VolumeID)))[:12]
	return blockNames{"disk-" + id, "node-" + id, "file-" + id, "faults-" + id + "-"}
}

// faulty puts QEMU's blkdebug over a file. The event "none" makes a rule hold
// from the start, for every request that its sector and direction match.
func faulty(name, file string, faults []Fault) map[string]any {
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
	return map[string]any{"driver": "blkdebug", "node-name": name, "image": file, "inject-error": rules}
}

func (m *vm) SetFaults(ctx context.Context, volumeID string, faults ...Fault) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	i := slices.IndexFunc(m.disks, func(d Disk) bool { return d.VolumeID == volumeID })
	if i < 0 {
		return fmt.Errorf("node %s: has no volume %s", m.spec.Name, volumeID)
	}
	before := m.disks[i]
	if run := m.current(); !run.over() {
		if err := swapFaults(ctx, run, before, faults); err != nil {
			return fmt.Errorf("node %s: the faults of volume %s: %w", m.spec.Name, volumeID, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disks = slices.Clone(m.disks)
	m.disks[i].Faults = faults
	return nil
}

// swapFaults changes what is between the disk's node and its file.
func swapFaults(ctx context.Context, r *vmRun, d Disk, faults []Fault) error {
	names := namesOf(d)
	spent, err := faultNodes(ctx, r, names)
	if err != nil {
		return err
	}
	below, err := addFaults(ctx, r, names, faults)
	if err != nil {
		return err
	}
	reopened := map[string]any{"driver": "raw", "node-name": names.node, "file": below}
	if err := r.monitor.Do(ctx, "blockdev-reopen", map[string]any{"options": []any{reopened}}, nil); err != nil {
		return err
	}
	return dropNodes(ctx, r, spent...)
}

// addFaults adds the node that makes the faults, and returns the name of what is
// below the disk's node from now on: that, or without faults the file.
func addFaults(ctx context.Context, r *vmRun, names blockNames, faults []Fault) (string, error) {
	if len(faults) == 0 {
		return names.file, nil
	}
	name := names.faults + newID()
	return name, r.monitor.Do(ctx, "blockdev-add", faulty(name, names.file, faults), nil)
}

// faultNodes are the names of the nodes that make a disk's faults.
func faultNodes(ctx context.Context, r *vmRun, names blockNames) ([]string, error) {
	var nodes []struct {
		Name string `json:"node-name"`
	}
	if err := r.monitor.Do(ctx, "query-named-block-nodes", map[string]bool{"flat": true}, &nodes); err != nil {
		return nil, err
	}
	var found []string
	for _, n := range nodes {
		if strings.HasPrefix(n.Name, names.faults) {
			found = append(found, n.Name)
		}
	}
	return found, nil
}

func dropNodes(ctx context.Context, r *vmRun, names ...string) error {
	for _, name := range names {
		if err := r.monitor.Do(ctx, "blockdev-del", map[string]string{"node-name": name}, nil); err != nil {
			return err
		}
	}
	return nil
}
