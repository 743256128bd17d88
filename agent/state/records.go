package state

import "github.com/nodehitch/nodehitch/shared/api"

const (
	machineFile = "machine.json"
	appliedFile = "last-known-good.json"
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
// good, nil where there is none yet. It is a file that `nodehitch-agent apply`
// takes, and holds what the document holds, secrets included, and no permit.
func (d *Directory) Applied() (*api.NodeConfig, error) {
	var doc api.NodeConfig
	if ok, err := d.readJSON(appliedFile, &doc); !ok {
		return nil, err
	}
	return &doc, nil
}

// SaveApplied keeps the document as the last known good.
func (d *Directory) SaveApplied(doc *api.NodeConfig) error { return d.writeJSON(appliedFile, doc) }
