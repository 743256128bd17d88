package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// growing: resize2fs may have begun and not ended.
	growing phase = "growing"
	// grown: the filesystem has its new size.
	grown phase = "grown"
)

// growth is the journal of how a volume's filesystem grew last. It lies beside the record
// of the format, because a volume that was formatted elsewhere has no such record.
type growth struct {
	VolumeID       string    `json:"volumeId"`
	Phase          phase     `json:"phase"`
	FilesystemUUID string    `json:"filesystemUuid"`
	FromBytes      int64     `json:"fromBytes"`
	ToBytes        int64     `json:"toBytes"`
	ChangedAt      time.Time `json:"changedAt"`
}

// of describes how this filesystem grew to its size, "" if it did not.
func (g growth) of(sb superblock) string {
	if g.Phase != grown || g.FilesystemUUID != sb.UUID || g.ToBytes != int64(sb.Size) || g.FromBytes == g.ToBytes {
		return ""
	}
	return fmt.Sprintf(" (grown from %d to %d bytes)", g.FromBytes, g.ToBytes)
}

// growth reads how a volume grew last, the zero value if it never did. A damaged record is
// none: whether the filesystem has to grow is in its superblock.
func (j *journal) growth(volumeID string) (growth, error) {
	path, err := j.growthPath(volumeID)
	if err != nil {
		return growth{}, err
	}
	content, err := j.files.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return growth{}, nil
	case err != nil:
		return growth{}, fmt.Errorf("the journal %s: %w", path, err)
	}
	var g growth
	if err := json.Unmarshal(content, &g); err != nil || !strings.EqualFold(g.VolumeID, volumeID) {
		return growth{}, nil //nolint:nilerr // as said above
	}
	return g, nil
}

// writeGrowth writes the record durably.
func (j *journal) writeGrowth(g growth) error {
	path, err := j.growthPath(g.VolumeID)
	if err != nil {
		return err
	}
	g.ChangedAt = j.timestamp()
	return j.put(path, g)
}

func (j *journal) growthPath(volumeID string) (string, error) {
	id, err := uuid.Parse(volumeID)
	if err != nil {
		return "", fmt.Errorf("volume id %q: %w", volumeID, err)
	}
	return filepath.Join(j.dir, id.String()+".growth.json"), nil
}

// growingPath is a file that is there while the filesystem grows. The mount unit names it,
// so that the filesystem is not mounted at a boot that cut the growth off.
func (j *journal) growingPath(volumeID string) (string, error) {
	id, err := uuid.Parse(volumeID)
	if err != nil {
		return "", fmt.Errorf("volume id %q: %w", volumeID, err)
	}
	return filepath.Join(j.dir, id.String()+".growing"), nil
}

// mountAtBoot lets the filesystem be mounted at boot, or not. It is durable.
func (j *journal) mountAtBoot(volumeID string, yes bool) error {
	path, err := j.growingPath(volumeID)
	switch {
	case err != nil:
		return err
	case yes:
		return j.files.Remove(path)
	}
	return j.files.Write(path, []byte("The filesystem grows: the agent mounts it at the next boot, not systemd.\n"), 0o600)
}
