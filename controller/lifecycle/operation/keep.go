package operation

import (
	"cmp"
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// healed is what becomes of the PersistentVolumes by a HEAL of the storage server.
type healed struct {
	// names are those of the servers that it is about, empty for the entire VNF.
	names []string
	// storage: the operation is a HEAL of the storage server that leaves the cluster.
	storage bool
	// before is the START, or the END that failed, that this operation continues; nil for none.
	before *store.Operation
	// volumes is what becomes of them: what the request says, or the operation before, or the
	// parameters; "" if none of them does, and so as the specification has it.
	volumes api.PersistentVolumesAtHeal
	// oldServerIsOffBy is who stated that the old server is off, "" for nobody; oldServerOff is the
	// server, "" if none could write.
	oldServerIsOffBy, oldServerOff string
}

func (p *postRequest) heals(ctx context.Context) (h healed) {
	if p.r.Operation != api.Heal || p.before.Params.Cluster == nil {
		return h
	}
	before, names := p.history.continued()
	if h.names = p.r.VnfcInstanceIds; len(h.names) == 0 {
		h.names = names
	}
	if !p.healsStorageServer(h.names) {
		return h
	}
	h.storage, h.volumes = true, p.r.PersistentVolumes
	if p.healsStorageServer(names) { // else it was about others
		h.before, h.volumes = before, cmp.Or(h.volumes, before.PersistentVolumes)
	}
	withdrawn := p.r.Phase == api.PhaseEnd && p.before.WithdrawPersistentVolumes
	if h.volumes == "" && p.keepsByDefault() && !withdrawn {
		h.volumes = api.KeepPersistentVolumes
	}
	if h.volumes == api.KeepPersistentVolumes || p.waits() {
		h.oldServerIsOffBy, h.oldServerOff = p.statement(ctx, h)
	}
	return h
}

// statement is who stated that an old storage server is off, and which one: the one that may write
// and is to be replaced. It is never about a later one, and so neither is its repetition by the same key:
// Tacker's retry says again what was said of the server before. That of a START lasts until its
// deadline; the server may serve again once that heal was given up.
func (p *postRequest) statement(ctx context.Context, h healed) (by, server string) {
	server = p.t.Instance.CarriedOver.VolumeServer
	said := slices.IndexFunc(p.history.operations, func(o store.Operation) bool {
		return p.r.IdempotencyKey != "" && o.IdempotencyKey == p.r.IdempotencyKey && o.OldServerIsOffBy != ""
	})
	switch o := h.before; {
	case p.r.OldServerIsOff && said >= 0:
		by, server = event.Caller(ctx), p.history.operations[said].OldServerOff
	case p.r.OldServerIsOff:
		by = event.Caller(ctx)
	case o == nil || o.OldServerOff == "" || o.OldServerOff != server || !p.t.Now.Before(o.Deadline):
		return "", ""
	default:
		by = o.OldServerIsOffBy
	}
	if p.r.Phase == api.PhaseEnd && server == p.storageServer() {
		server = "" // it is the new one
	}
	return cmp.Or(by, "the controller"), server
}

// storageServer is the storage server that the request brings, "" for none.
func (p *postRequest) storageServer() string {
	return storageServerOf(p.before.Params, p.next.Topology)
}

// waits reports whether the storage server of the END waits for an old one, whatever becomes of the
// PersistentVolumes by this END: they were kept while that one was told of the volumes.
func (p *postRequest) waits() bool {
	old := p.t.Instance.CarriedOver.VolumeServer
	return p.r.Phase == api.PhaseEnd && old != "" && old != p.storageServer()
}

// continued is the START, or the END that failed, that an END continues, nil for none, and the
// names of the servers that it is about: those of its START if it names none itself.
func (h history) continued() (before *store.Operation, names []string) {
	if h.request.Phase != api.PhaseEnd {
		return nil, nil
	}
	for i := range h.operations {
		o := &h.operations[i]
		if !sameKind(o.Request, h.request) || (o.Phase == api.PhaseStart) == (o.State == api.Failed) {
			break
		}
		before = cmp.Or(before, o)
		if names = o.Request.VnfcInstanceIds; len(names) > 0 || o.Phase == api.PhaseStart {
			break
		}
	}
	return before, names
}

func (p *postRequest) keepsByDefault() bool {
	s := p.before.Params.Cluster.StorageServer
	return s != nil && s.KeepVolumes
}

// withdrawn reports whether the operation is the END of a HEAL of the storage server whose START has
// withdrawn the PersistentVolumes: no client writes, and the specification has the next server mount
// at once. A START that found no master to ask has no target.
func (p *postRequest) withdrawn() bool {
	start := p.history.awaited(p.t.Instance.AwaitingEndSequence)
	return p.healed.storage && p.before.WithdrawPersistentVolumes && start != nil && len(start.Targets) > 0
}

// liftsFence reports whether with this END a storage server may mount although another one was told of
// the volumes: nobody writes to them through that one any more.
func (p *postRequest) liftsFence() bool {
	off := p.healed.oldServerOff
	return p.withdrawn() || p.endsCluster() || off != "" && off == p.t.Instance.CarriedOver.VolumeServer
}

// letMount lets the storage server of the END mount, or the next one if it has none, if the END lifts the fence.
func (p *postRequest) letMount() error {
	if !p.liftsFence() {
		return nil
	}
	server := p.storageServer()
	liftFence(p.t, p.before.Params, server)
	if p.withdrawn() || p.endsCluster() {
		p.t.Instance.CarriedOver.VolumeIDs, p.t.Instance.CarriedOver.RegisteredAt = nil, nil
	}
	if server != "" {
		return nil
	}
	for _, id := range p.t.Instance.VolumeIDs { // else their records would say who may write
		if err := p.s.Reconciler.ReleaseVolume(p.t, id); err != nil {
			return err
		}
	}
	return nil
}

// endsCluster reports whether the operation is a HEAL of the entire VNF that leaves no master of
// the cluster before: it went with its PersistentVolumes, and nothing is left to keep. An END without names
// alone does not say so: a client of an older Tacker may not know which servers it was about.
func (p *postRequest) endsCluster() bool {
	if p.r.Operation != api.Heal || p.next.Topology == nil || len(p.healed.names) > 0 && !allOf(p.known.all, p.known.namedBy(p.healed.names)) {
		return false
	}
	masters := p.t.Instance.CarriedOver.VolumeMasters
	if len(masters) == 0 { // an older controller has not noted them
		masters = p.known.masters
	}
	return len(masters) > 0 && !slices.ContainsFunc(p.next.Topology.Servers, func(s api.Server) bool { return slices.Contains(masters, s.ID) })
}

// keeps reports whether the HEAL keeps the PersistentVolumes.
func (p *postRequest) keeps() bool { return p.healed.volumes == api.KeepPersistentVolumes }
