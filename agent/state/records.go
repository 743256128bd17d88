package state

import (
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	machineFile = "machine.json"
	appliedFile = "applied.json"
	// JournalDirectory holds the records of formats, one file a volume.
	JournalDirectory = "journal"
)

// Machine is who this machine was when it enrolled. Both its id and the DMI
// product UUID tell a copy of its disk from the machine itself.
type Machine struct {
	NodeID string `json:"nodeId"`
	// Source is where the id was found, see package identity.
	Source      string `json:"source"`
	ProductUUID string `json:"productUuid,omitempty"`
}

// Machine reads the record, nil where the machine has not enrolled.
func (d *Directory) Machine() (*Machine, error) {
	var m Machine
	if ok, err := d.readJSON(machineFile, &m); !ok {
		return nil, err
	}
	return &m, nil
}

// SaveMachine keeps the record.
func (d *Directory) SaveMachine(m Machine) error { return d.writeJSON(machineFile, m) }

// Applied is the last document whose every condition became True: the last known
// good. It holds what the document holds, secrets included, and no permit.
type Applied struct {
	Digest    string          `json:"digest"`
	AppliedAt time.Time       `json:"appliedAt"`
	Document  *api.NodeConfig `json:"document"`
}

// Applied reads the record, nil where nothing was ever applied.
func (d *Directory) Applied() (*Applied, error) {
	var a Applied
	if ok, err := d.readJSON(appliedFile, &a); !ok || a.Document == nil {
		return nil, err
	}
	return &a, nil
}

// SaveApplied keeps the record.
func (d *Directory) SaveApplied(a Applied) error { return d.writeJSON(appliedFile, a) }
