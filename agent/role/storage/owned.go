package storage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// owned is what the storage role owns on this machine, as in the inventory.
type owned struct {
	Volumes []ownedVolume `json:"volumes,omitempty"`
	// Server says that nfs-server was installed or enabled by the agent.
	Server bool `json:"server,omitempty"`
	// Scope is the NFS server's: if it runs, it was started with the settings for this scope.
	Scope string `json:"scope,omitempty"`
	// Records is the directory on a volume where the NFS server's clients are recorded.
	Records string `json:"records,omitempty"`
}

// ownedVolume is a volume that the agent has mounted, or planned to.
type ownedVolume struct {
	VolumeID       string `json:"volumeId"`
	MountPath      string `json:"mountPath"`
	FilesystemUUID string `json:"filesystemUuid"`
	// Device is the link in the mount unit.
	Device string `json:"device"`
	// Made says that the agent made the mount point; else Mode is its former mode.
	Made bool   `json:"made,omitempty"`
	Mode uint32 `json:"mode,omitempty"`
}

// inventoryKind is the storage role's member of the inventory.
const inventoryKind = "storage"

func (s *steps) owned() (owned, error) {
	var o owned
	if err := s.inventory.Read(inventoryKind, &o); err != nil {
		return owned{}, err
	}
	for _, v := range o.Volumes {
		if err := v.check(); err != nil {
			return owned{}, s.inventory.Damaged(err)
		}
	}
	return o, nil
}

// check rejects entries that the agent cannot have written, because the agent unmounts
// and removes what it owns.
func (o ownedVolume) check() error {
	if _, err := grammar.MountPath(o.MountPath); err != nil {
		return fmt.Errorf("mount path %w", err)
	}
	for _, id := range []string{o.VolumeID, o.FilesystemUUID} {
		if _, err := uuid.Parse(id); err != nil {
			return fmt.Errorf("%.60q at %s: %w", id, o.MountPath, err)
		}
	}
	return nil
}

// own changes the inventory.
func (s *steps) own(change func(*owned)) error {
	o, err := s.owned()
	if err != nil {
		return err
	}
	change(&o)
	return s.inventory.Write(inventoryKind, o)
}

// at returns the owned volume at a mount point.
func (o *owned) at(mountPath string) *ownedVolume {
	i := slices.IndexFunc(o.Volumes, func(v ownedVolume) bool { return v.MountPath == mountPath })
	if i < 0 {
		return nil
	}
	return &o.Volumes[i]
}

// put adds a volume, or replaces the one at its mount point.
func (o *owned) put(v ownedVolume) {
	if old := o.at(v.MountPath); old != nil {
		*old = v
		return
	}
	o.Volumes = append(o.Volumes, v)
	slices.SortFunc(o.Volumes, func(a, b ownedVolume) int { return cmp.Compare(a.MountPath, b.MountPath) })
}

func (o *owned) drop(mountPath string) {
	o.Volumes = slices.DeleteFunc(o.Volumes, func(v ownedVolume) bool { return v.MountPath == mountPath })
}
