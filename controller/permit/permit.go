// Package permit answers the format exchange: whether a node may make a filesystem
// on a volume. It gives one permit for each volume, and one more only when an
// operator says so. The agent checks that the disk is blank; this package ensures that no
// other node was ever told to format it.
//
// The states of a permit, and what moves it:
//
//	None        --wanted-->    Granted
//	Granted     --started-->   Started      (on disk before it is acknowledged)
//	Started     --formatted--> Formatted
//	Granted     --node gone--> None         (see NodeGone)
//	Started     --node gone--> Interrupted
//	any         --adopt-->     Adopted      (not while a live node has Started)
//	any         --reformat-->  None, with one Overwrite (not while a live node has Started)
package permit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Service keeps the permits in the records of the volumes. Every error that
// concerns the caller is, or wraps, an *api.Problem.
type Service struct {
	Store *store.Store
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Log, slog.Default() when nil.
	Log *slog.Logger
	// Changed is called with the instance of a volume once something is on disk that
	// the node's configuration shows: an operator's word on the volume or the end of
	// that, and that its format was interrupted.
	Changed func(instanceID string)
	// Hub wakes who waits for a volume.
	Hub *notify.Hub
}

func (s *Service) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Service) log() *slog.Logger {
	if s.Log == nil {
		return slog.Default()
	}
	return s.Log
}

// put writes the volume; before and after of its permit go to the log once they
// are on disk: they tell what happened to an operator's data.
func (s *Service) put(tx *store.Tx, v *store.Volume, before store.Permit, why string) error {
	v.ChangedAt = s.now()
	id, after := v.ID, v.Permit
	tx.OnCommit(func() {
		s.log().Info("permit changed", "event", api.EventPermitChanged, "volume", id, "reason", why, "node", after.NodeID, "permit", after.ID,
			"from", before.State, "to", after.State, "overwrite", after.Overwrite)
		s.Hub.Changed(id, notify.Volumes)
	})
	return tx.Volumes().Put(v.ID, *v)
}

// shown is what the node's configuration shows of a volume's permit.
func shown(v store.Volume) [2]bool {
	return [2]bool{v.ReformatRequested, v.Permit.State == api.PermitInterrupted}
}

// announce has the documents of the volume's instance be made anew after tx.
func (s *Service) announce(tx *store.Tx, v store.Volume) {
	if s.Changed != nil && v.InstanceID != "" {
		tx.OnCommit(func() { s.Changed(v.InstanceID) })
	}
}

// Get is a volume as operators see it.
func (s *Service) Get(_ context.Context, volumeID string) (api.Volume, error) {
	var shown api.Volume
	err := s.Store.View(func(tx *store.Tx) error {
		v, err := getVolume(tx, volumeID)
		if err != nil {
			return err
		}
		i, _, err := tx.Instances().Get(v.InstanceID)
		shown = s.wire(v, i.Name)
		return err
	})
	return shown, err
}

// List is all volumes that any configuration names or named, by id.
func (s *Service) List(context.Context) ([]api.Volume, error) {
	volumes := []api.Volume{}
	err := s.Store.View(func(tx *store.Tx) error {
		names, err1 := tx.InstanceNames()
		all, err2 := tx.Volumes().All()
		for _, v := range all {
			volumes = append(volumes, s.wire(v, names[v.InstanceID]))
		}
		return errors.Join(err1, err2)
	})
	return volumes, err
}

func getVolume(tx *store.Tx, volumeID string) (store.Volume, error) {
	v, found, err := tx.Volumes().Get(strings.ToLower(volumeID))
	if err == nil && !found {
		err = api.NewProblem(api.ProblemNotFound, fmt.Sprintf(
			"no volume %q in any topology, now or before: GET /v1/volumes lists them", volumeID)).With(api.Action{Call: api.CallListVolumes})
	}
	if v.Permit.State == "" {
		v.Permit.State = api.PermitNone
	}
	return v, err
}

// wire is a volume as people see it, with the name of its instance.
func (s *Service) wire(v store.Volume, instance string) api.Volume {
	w := api.Volume{
		ID:                v.ID,
		VnfInstanceID:     v.InstanceID,
		VnfInstanceName:   instance,
		NodeID:            v.NodeID,
		ResourceID:        v.ResourceID,
		SizeBytes:         v.SizeBytes,
		FilesystemUUID:    v.FilesystemUUID,
		PermitState:       v.Permit.State,
		PermitNodeID:      v.Permit.NodeID,
		ReformatRequested: v.ReformatRequested,
	}
	if w.PermitState == "" {
		w.PermitState = api.PermitNone
	}
	// What is spent in the backup stays spent; the rest is unknown.
	known := w.PermitState == api.PermitFormatted || w.PermitState == api.PermitInterrupted || w.PermitState == api.PermitAdopted
	w.Unconfirmed = v.Epoch != s.Store.Epoch() && !known
	if !v.ChangedAt.IsZero() {
		w.ChangedAt = &v.ChangedAt
	}
	return w
}
