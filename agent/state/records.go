package state

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// MachineFile has the record of the machine that enrolled.
	MachineFile = "machine.json"
	appliedFile = "last-known-good.json"
	// JournalDirectory contains the records of formats, one file a volume.
	JournalDirectory = "journal"
)

// Machine identifies the machine that enrolled. Its id and the DMI product UUID
// distinguish it from a machine with a copy of its disk.
type Machine struct {
	NodeID string `json:"nodeId"`
	// Source is where the id was found, see package identity.
	Source      string `json:"source"`
	ProductUUID string `json:"productUuid,omitempty"`
}

// Machine reads the record, nil if the machine has not enrolled; *Damaged if
// it names no server.
func (d *Directory) Machine() (*Machine, error) {
	var m Machine
	if ok, err := d.ReadJSON(MachineFile, &m); !ok {
		return nil, err
	}
	if id, err := uuid.Parse(m.NodeID); err != nil || id.String() != m.NodeID {
		return nil, &Damaged{Path: d.Path(MachineFile), Err: fmt.Errorf("it names no server: found %.60q, expected a UUID in lower case", m.NodeID)}
	}
	return &m, nil
}

// SaveMachine keeps the record.
func (d *Directory) SaveMachine(m Machine) error { return d.WriteJSON(MachineFile, m) }

// Applied is the last document whose every condition became True: the last known
// good, nil if there is none yet. It is a file that `nodehitch-agent apply`
// takes, and has all of the document, secrets included, but no permit. It is
// read as strictly as one that comes from the controller: *Damaged if it is cut
// off, or where an agent wrote it that knew more than this one.
func (d *Directory) Applied() (*api.NodeConfig, error) {
	content, err := d.Read(appliedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := document.Decode(content)
	if err != nil {
		return nil, &Damaged{Path: d.Path(appliedFile), Err: err}
	}
	return doc, nil
}

// SaveApplied keeps the document as the last known good.
func (d *Directory) SaveApplied(doc *api.NodeConfig) error { return d.WriteJSON(appliedFile, doc) }
