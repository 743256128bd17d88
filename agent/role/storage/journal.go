package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

// phase is how far a format has come.
type phase string

const (
	// permitted: the agent has a permit and has not used it.
	permitted phase = "permitted"
	// started: from here on the disk may contain anything that a killed mkfs leaves.
	started phase = "started"
	// formatted: the filesystem is on the disk and was checked.
	formatted phase = "formatted"
	// reported: the controller has acknowledged it.
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
	// damaged says why the file cannot be read. Such a record stands for an unknown
	// format.
	damaged string
}

// unfinished reports whether mkfs may have begun and not ended.
func (r *record) unfinished() bool {
	return r != nil && (r.Phase == started || r.damaged != "")
}

// Unfinished names a volume of whose format or growth the journal in a state directory says
// that it may have begun and not ended, "" for none.
func Unfinished(stateDirectory string) (string, error) {
	j := journal{files: host.Linux(nil).Files, dir: filepath.Join(stateDirectory, state.JournalDirectory)}
	entries, err := os.ReadDir(j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), ".")
		if uuid.Validate(id) != nil {
			continue // an unfinished write, say
		}
		r, err1 := j.read(id)
		g, err2 := j.growth(id)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if r.unfinished() || g.Phase == growing {
			return id, nil
		}
	}
	return "", nil
}

// misfit says why the record is not for this disk on this node, "" if it is.
func (r *record) misfit(v *api.StorageVolume, disk host.Disk, nodeID string) string {
	switch {
	case r.damaged != "":
		return "the journal of its format cannot be read: " + r.damaged
	case r.NodeID != nodeID:
		return "another server (" + r.NodeID + ") began to format it; this server's root disk is a copy of that one's"
	case r.SizeBytes != disk.Size:
		return fmt.Sprintf("a format began on a disk of %d bytes, but this disk has %d", r.SizeBytes, disk.Size)
	case !strings.EqualFold(r.FilesystemUUID, v.FilesystemUUID):
		return "a format began with the UUID " + r.FilesystemUUID + ", but " + v.FilesystemUUID + " is assigned now"
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

// read returns the record of a volume, nil if there is none. A file with invalid
// content is a damaged record, not an error: it blocks only this volume.
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
			"volume %s: the journal of its format cannot be read. A format may be unfinished, so none is started: %v", volumeID, err)
	}
	var r record
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&r)
	if _, rest := decoder.Token(); err == nil && !errors.Is(rest, io.EOF) {
		err = errors.New("there is data after the record")
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

// write writes the record durably.
func (j *journal) write(r record) error {
	path, err := j.path(r.VolumeID)
	if err != nil {
		return err
	}
	r.ChangedAt = j.timestamp()
	return j.put(path, r)
}

func (j *journal) timestamp() time.Time { return j.now().UTC().Truncate(time.Second) }

func (j *journal) put(path string, r any) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := j.files.Write(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("the journal %s: %w", path, err)
	}
	return nil
}
