package stacks

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// plug attaches the volumes that Nova attaches to the machine's server, and detaches the
// others. A volume that another machine still has is left there.
func (h *hypervisor) plug(ctx context.Context, m lab.Node, s server) error {
	attached := map[string]bool{}
	for _, v := range s.Volumes {
		attached[v.ID] = true
		if h.holder(v.ID) != "" {
			continue
		}
		disk, err := h.disk(v.ID)
		if err == nil {
			err = m.Attach(ctx, disk)
		}
		if err != nil {
			return fmt.Errorf("attaching volume %s to %s: %w", v.ID, s.Name, err)
		}
		h.hold(v.ID, s.ID)
	}
	for _, id := range h.heldBy(s.ID) {
		if attached[id] {
			continue
		}
		if err := m.Detach(ctx, id); err != nil {
			return fmt.Errorf("detaching volume %s from %s: %w", id, s.Name, err)
		}
		h.hold(id, "")
	}
	return nil
}

// holder is the server whose machine has a volume's disk, "" for none.
func (h *hypervisor) holder(volumeID string) string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.held[volumeID]
}

func (h *hypervisor) hold(volumeID, serverID string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.held[volumeID] = serverID
}

func (h *hypervisor) heldBy(serverID string) (volumes []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for volume, server := range h.held {
		if server == serverID {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}

// disk is the content of a Cinder volume: one file for the volume's whole life.
func (h *hypervisor) disk(volumeID string) (lab.Disk, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if d, ok := h.disks[volumeID]; ok {
		return d, nil
	}
	d, err := h.lab.NewDisk(volumeID, 1<<30) // the size of every volume here
	if err == nil {
		h.disks[volumeID] = d
	}
	return d, err
}
