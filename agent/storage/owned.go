package storage

import "slices"

// owned is what the storage role has on this machine, as the inventory keeps it.
type owned struct {
	Volumes []ownedVolume `json:"volumes,omitempty"`
	// Server says that nfs-server was enabled or started by the agent.
	Server bool `json:"server,omitempty"`
}

// ownedVolume is a volume that was mounted, or was to be.
type ownedVolume struct {
	VolumeID       string `json:"volumeID"`
	MountPath      string `json:"mountPath"`
	FilesystemUUID string `json:"filesystemUUID"`
	// Device is the link in the mount unit.
	Device string `json:"device"`
	// Made says that the mount point was made by the agent; else Mode is what it had.
	Made bool   `json:"made,omitempty"`
	Mode uint32 `json:"mode,omitempty"`
}

// inventoryKind is the member of the inventory that is the storage role's.
const inventoryKind = "storage"

func (s *steps) owned() (owned, error) {
	var o owned
	err := s.inventory.Read(inventoryKind, &o)
	return o, err
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

// at is the volume that is owned at a mount point.
func (o *owned) at(mountPath string) *ownedVolume {
	i := slices.IndexFunc(o.Volumes, func(v ownedVolume) bool { return v.MountPath == mountPath })
	if i < 0 {
		return nil
	}
	return &o.Volumes[i]
}

// put adds a volume, or replaces what is owned at its mount point.
func (o *owned) put(v ownedVolume) {
	if old := o.at(v.MountPath); old != nil {
		*old = v
		return
	}
	o.Volumes = append(o.Volumes, v)
	slices.SortFunc(o.Volumes, func(a, b ownedVolume) int { return compare(a.MountPath, b.MountPath) })
}

func (o *owned) drop(mountPath string) {
	o.Volumes = slices.DeleteFunc(o.Volumes, func(v ownedVolume) bool { return v.MountPath == mountPath })
}
