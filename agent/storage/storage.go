// Package storage brings a VM to the role of a storage server: Cinder volumes with
// a filesystem, mounted, and directories on them exported over NFS.
//
// One rule is above all others: a disk with data on it is never formatted. What a
// disk holds is decided in one place (content.go), what is done about it in one
// switch (decide.go), and in doubt nothing is done.
package storage

import (
	"log/slog"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/host"
)

// Options are what the steps need. All are required but Now and Log.
type Options struct {
	Host *host.Host
	// Permits decides about formats.
	Permits Permits
	// NodeID is this server's id: a journal of another node, which a copied root disk
	// would bring along, permits nothing.
	NodeID string
	// StateDirectory is where journal/ and inventory.json are, converge's own 0700
	// directory /var/lib/nodehitch/agent.
	StateDirectory string
	// Now is the clock of journal records.
	Now func() time.Time
	Log *slog.Logger
}

// NewSteps are the steps of the storage role in their order: VolumesMounted, then
// ExportsServed.
func NewSteps(o Options) []converge.Step {
	return nil
}
