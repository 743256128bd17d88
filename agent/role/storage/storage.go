// Package storage makes a VM a storage server: it formats and mounts Cinder volumes and
// exports directories on them over NFS.
//
// The most important rule is that a disk with data on it is never formatted. One file
// determines what a disk contains (content.go), one switch decides what may be done
// (decide.go), and if the content is unknown the disk is not changed.
package storage

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
)

// Options of the steps. All are required except Now and Log.
type Options struct {
	Host *host.Host
	// Permits decides about formats.
	Permits Permits
	// NodeID is this server's id: the journal of another node, from a copied root disk,
	// permits nothing.
	NodeID string
	// StateDirectory has journal/ and inventory.json; it is the agent's directory
	// /var/lib/nodehitch/agent (0700).
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
	// setsScope is what rpc.nfsd has said of itself, nil if it was not asked yet.
	setsScope *bool
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
