// Package storage brings a VM to the role of a storage server: Cinder volumes with
// a filesystem, mounted, and directories on them exported over NFS.
//
// One rule is above all others: a disk with data on it is never formatted. What a
// disk holds is found out in one place (content.go), what may be done about it is
// one switch (decide.go), and in doubt nothing is done.
package storage

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
)

// Options are what the steps need. All are required but Now and Log.
type Options struct {
	Host *host.Host
	// Permits decides about formats.
	Permits Permits
	// NodeID is this server's id: a journal of another node, which a copied root disk
	// would bring along, permits nothing.
	NodeID string
	// StateDirectory is where journal/ and inventory.json are, the agent's own 0700
	// directory /var/lib/nodehitch/agent.
	StateDirectory string
	// Now is the clock of journal records.
	Now func() time.Time
	Log *slog.Logger
}

// steps is what both steps share.
type steps struct {
	Options
	journal   *journal
	inventory inventory.File
}

// NewSteps are the steps of the storage role in their order: VolumesMounted, then
// ExportsServed.
func NewSteps(o Options) []converge.Step {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &steps{
		Options:   o,
		journal:   &journal{files: o.Host.Files, dir: filepath.Join(o.StateDirectory, "journal"), nodeID: o.NodeID, now: o.Now},
		inventory: inventory.File{Files: o.Host.Files, Path: filepath.Join(o.StateDirectory, "inventory.json")},
	}
	return []converge.Step{&volumes{s}, &exports{s}}
}
