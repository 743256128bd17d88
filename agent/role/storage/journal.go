package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// phase is how far a format has come.
type phase string

const (
	// permitted: a permit was had, and nothing was done with it.
	permitted phase = "permitted"
	// started: from here on the disk may hold anything that mkfs leaves when it is
	// killed.
	started phase = "started"
	// formatted: the filesystem is on the disk, checked.
	formatted phase = "formatted"
	// reported: and whoever permitted it knows.
	reported phase = "reported"
)

// record is the journal of one volume's format.
type record struct {
	VolumeID       string    `json:"volumeId"`
	Phase          phase     `json:"phase"`
	Permit         string    `json:"permit"`
	Overwrite      bool      `json:"overwrite,omitempty"`
	NodeID         string    `json:"nodeId"`
	Device         string    `json:"device"`
	SizeBytes      int64     `json:"sizeBytes"`
	FilesystemUUID string    `json:"filesystemUuid"`
	ChangedAt      time.Time `json:"changedAt"`
	// damaged says why the file cannot be read. Such a record stands for a format of
	// which nothing is known.
	damaged string
}

// unfinished: mkfs may have begun, and did not end.
func (r *record) unfinished() bool {
	return r != nil && (r.Phase == started || r.damaged != "")
}

// misfit says why the record is not of this disk on this node, "" where it is.
func (r *record) misfit(v *api.StorageVolume, disk host.Disk, nodeID string) string {
	switch {
	case r.damaged != "":
		return "the journal of its format cannot be read: " + r.damaged
	case r.NodeID != nodeID:
		return "a format of it was begun by another server (" + r.NodeID + "), from which this one's root disk was copied"
	case r.SizeBytes != disk.Size:
		return fmt.Sprintf("a format was begun on a disk of %d bytes, and this one has %d", r.SizeBytes, disk.Size)
	case !strings.EqualFold(r.FilesystemUUID, v.FilesystemUUID):
		return "a format was begun with the UUID " + r.FilesystemUUID + ", and " + v.FilesystemUUID + " is assigned now"
	}
	return ""
}

// journal keeps a record for each volume, on disk before and after every step.
type journal struct {
	files  host.Files
	dir    string
	nodeID string
	now    func() time.Time
}

func (j *journal) path(volumeID string) (string, error) {
	id, err := uuid.Parse(volumeID)
	if err != nil {
		return "", fmt.Errorf("volume id %q: %w", volumeID, err)
	}
	return filepath.Join(j.dir, id.String()+".json"), nil
}

// read is the record of a volume, nil where there is none. A file that cannot be
// understood is a damaged record, not an error: it blocks this volume alone.
func (j *journal) read(volumeID string) (*record, error) {
	path, err := j.path(volumeID)
	if err != nil {
		return nil, err
	}
	content, err := j.files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, converge.Wait(api.ReasonStateDamaged,
			"volume %s: the journal of its format cannot be read, so it is not known whether one was begun, and none is: %v", volumeID, err)
	}
	var r record
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&r)
	if _, rest := decoder.Token(); err == nil && !errors.Is(rest, io.EOF) {
		err = errors.New("something follows the record")
	}
	if err != nil {
		return &record{VolumeID: volumeID, damaged: path + ": " + err.Error()}, nil //nolint:nilerr // the record says it
	}
	known := r.Phase == permitted || r.Phase == started || r.Phase == formatted || r.Phase == reported
	if !known || !strings.EqualFold(r.VolumeID, volumeID) || r.Permit == "" {
		return &record{VolumeID: volumeID, damaged: path + " is not a record of this volume"}, nil
	}
	return &r, nil
}

// write puts the record on disk; it is there when write returns.
func (j *journal) write(r record) error {
	path, err := j.path(r.VolumeID)
	if err != nil {
		return err
	}
	r.ChangedAt = j.now().UTC().Truncate(time.Second)
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := j.files.Write(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("journal of volume %s: %w", r.VolumeID, err)
	}
	return nil
}
