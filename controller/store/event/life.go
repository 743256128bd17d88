package event

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func (h *derivation) instance(c store.Change[store.Instance]) {
	before, after := c.Before, c.After
	if after == nil {
		h.add(before.ID, store.Event{Type: api.HappenedInstanceDeleted, Message: before.Name}) // nothing else has it any more
		return
	}
	if before == nil {
		h.add(after.ID, store.Event{Type: api.HappenedInstanceCreated})
		before = &store.Instance{Epoch: after.Epoch, Name: after.Name, Labels: after.Labels}
	}
	if same := maps.Equal(before.Labels, after.Labels); before.Name != after.Name || !same {
		e := changed(api.HappenedInstanceRenamed, before.Name, after.Name)
		if !same {
			e.Message = "labels " + labels.FormatLabels(before.Labels) + " -> " + labels.FormatLabels(after.Labels)
		}
		h.add(after.ID, e)
	}
	if before.Epoch != after.Epoch {
		h.add(after.ID, store.Event{Type: api.HappenedInstanceConfirmed})
	}
	if before.DesiredVersion != after.DesiredVersion {
		h.add(after.ID, changed(api.HappenedDesiredStateChanged, version(before.DesiredVersion), version(after.DesiredVersion)))
	}
}

// wave is the beginning and the end of the upgrade of members of an instance's cluster.
func (h *derivation) wave(t *store.Tx, c store.Change[store.Instance]) error {
	if c.Before == nil || c.After == nil || slices.Equal(c.Before.CarriedOver.Wave, c.After.CarriedOver.Wave) {
		return nil
	}
	var names [2]string
	for i, wave := range [][]string{c.Before.CarriedOver.Wave, c.After.CarriedOver.Wave} {
		var list []string
		for _, id := range wave {
			n, _, err := t.Nodes().Get(id)
			if err != nil {
				return err
			}
			list = append(list, n.Name)
		}
		names[i] = strings.Join(list, ", ")
	}
	h.add(c.After.ID, changed(api.HappenedKubernetesWave, names[0], names[1]))
	return nil
}

// version is "" if there is none.
func version(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// operationBegins: while it is in progress, an operator may state that the old storage server is off.
func (h *derivation) operationBegins(c store.Change[store.Operation]) {
	o := c.After
	if o == nil {
		return
	}
	off := o.OldServerIsOffBy + " stated that the storage server " + o.OldServerOff + " is off"
	if c.Before != nil {
		if o.OldServerIsOffBy != c.Before.OldServerIsOffBy {
			h.add(o.VnfInstanceID, store.Event{Type: api.HappenedOldServerIsOff, OperationID: o.ID, Message: off})
		}
		return
	}
	message := o.Request.Describe()
	if o.PersistentVolumes != "" {
		message += ", PersistentVolumes: " + string(o.PersistentVolumes)
	}
	if o.OldServerIsOffBy != "" {
		message += ", " + off
	}
	h.add(o.VnfInstanceID, store.Event{Type: api.HappenedOperationStarted, OperationID: o.ID, To: string(api.Processing), Message: message})
}

// operationEnds: a START that awaits its END was over once before.
func (h *derivation) operationEnds(c store.Change[store.Operation]) {
	o := c.After
	if o == nil || o.State == api.Processing || c.Before != nil && c.Before.State == o.State {
		return
	}
	e := store.Event{Type: api.HappenedOperationEnded, OperationID: o.ID, From: string(api.Processing), To: string(o.State)}
	if c.Before != nil {
		e.From = string(c.Before.State)
	}
	if o.Error != nil {
		e.Reason, e.Message = strings.TrimPrefix(o.Error.Type, api.ProblemPrefix), o.Error.Detail
		if o.Error.Type == api.ProblemCancelled {
			e.Type = api.HappenedOperationCancelled
		}
	}
	h.ends = append(h.ends, end{e, o.Operation})
	h.add(o.VnfInstanceID, e)
}

func (h *derivation) volume(c store.Change[store.Volume]) {
	before, after := c.Before, c.After
	if after == nil {
		return
	}
	if before == nil {
		before = &store.Volume{}
	}
	if what := ofVolume(*before, *after); what != "" {
		h.add(after.InstanceID, store.Event{Type: what, VolumeID: after.ID, NodeID: cmp.Or(after.Permit.NodeID, before.Permit.NodeID),
			From: string(before.Permit.State), To: string(after.Permit.State)})
	}
}

// ofVolume is what happened by a change of a volume's permit, "" for nothing.
func ofVolume(before, after store.Volume) api.EventType {
	if after.ReformatRequested && (!before.ReformatRequested || before.Permit != after.Permit) && after.Permit.State == api.PermitNone {
		return api.HappenedReformatAllowed
	}
	if before.Permit == after.Permit {
		return ""
	}
	switch after.Permit.State {
	case api.PermitGranted:
		return api.HappenedPermitGranted
	case api.PermitStarted:
		return api.HappenedFormatStarted
	case api.PermitFormatted:
		return api.HappenedVolumeFormatted
	case api.PermitInterrupted:
		return api.HappenedFormatInterrupted
	case api.PermitAdopted:
		return api.HappenedVolumeAdopted
	case api.PermitNone:
		if before.Permit.State != "" {
			return api.HappenedPermitWithdrawn
		}
	}
	return ""
}
