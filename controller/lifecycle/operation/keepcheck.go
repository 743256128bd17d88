package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Where faults of what becomes of PersistentVolumes stand.
const (
	atVolumes   = fault.Root + "/persistentVolumes"
	atServerOff = fault.Root + "/oldServerIsOff"
)

// cannotKeep begins a fault whose reason why the PersistentVolumes cannot stay follows.
const cannotKeep = "cannot be " + string(api.KeepPersistentVolumes) + ": "

// checkHealed refuses a request whose word on the PersistentVolumes cannot be followed.
func (p *postRequest) checkHealed(out plan.Output) (faults fault.List, err error) {
	wrong := func(at fault.At, format string, args ...any) {
		faults = append(faults, at.Fault(fmt.Sprintf(format, args...)))
	}
	if !p.healed.storage {
		if p.r.PersistentVolumes != "" {
			wrong(atVolumes, "belongs to a HEAL that names the storage server, and not every server; leave it out")
		}
		if p.r.OldServerIsOff {
			wrong(atServerOff, "belongs to a HEAL that names the storage server, and not every server; leave it out")
		}
		return faults, nil
	}
	asked, before := p.r.PersistentVolumes, p.healed.before
	switch {
	case before != nil && before.PersistentVolumes != "" && asked != "" && asked != before.PersistentVolumes:
		wrong(atVolumes, "is %q; operation %s (%s) took %q: leave it out, or post another START", asked, before.ID, before.Request.Describe(), before.PersistentVolumes)
	case asked == api.KeepPersistentVolumes && !p.keepsByDefault() && (before == nil || before.PersistentVolumes != asked):
		wrong(atVolumes, "is %q, and the parameters do not have persistent_volumes_at_heal %q, so the record of the NFS server's clients is not on the volume: "+
			"set it while the old storage server lives, and then heal", asked, asked)
	case asked == api.WithdrawPersistentVolumes && p.r.Phase == api.PhaseEnd && p.keepsByDefault() &&
		!p.before.WithdrawPersistentVolumes && (before == nil || before.PersistentVolumes != asked):
		wrong(atVolumes, "is %q, and no START of a HEAL withdrew them; post its START first", asked)
	}
	if p.r.OldServerIsOff && !p.keeps() && !p.waits() {
		wrong(atServerOff, "is true, and the PersistentVolumes are not kept, so nothing waits for the old server; leave it out")
	}
	if server := p.healed.oldServerOff; p.r.Phase == api.PhaseStart && server != "" && server == p.t.Instance.CarriedOver.VolumeServer && !p.known.namedBy(p.healed.names)[server] {
		wrong(atServerOff, "is true, and the storage server that may still write is %s, which the START does not name; leave it out, or state first that this one is off, with the END of a HEAL", server)
	}
	if len(faults) > 0 || !p.keeps() || len(out.Faults) > 0 {
		return faults, nil
	}
	if faults, err = p.checkVolumeIDs(); err != nil || p.r.Phase != api.PhaseStart {
		return faults, err
	}
	more, err := p.checkKeep(out)
	if err != nil {
		return nil, err
	}
	faults = append(faults, more...)
	list, err := p.strandedBy(out)
	for _, each := range list {
		wrong(atVolumes, cannotKeep+"%s: give the storage server the old address, or delete the claims and heal with withdraw", each)
	}
	return faults, err
}

// checkKeep is each reason why the PersistentVolumes cannot stay while their storage server is
// replaced, found before anything is touched.
func (p *postRequest) checkKeep(out plan.Output) (faults fault.List, err error) {
	wrong := func(format string, args ...any) {
		faults = append(faults, atVolumes.Fault(cannotKeep+fmt.Sprintf(format, args...)))
	}
	i := slices.IndexFunc(out.Nodes, func(n plan.Node) bool { return n.Role == api.RoleStorage })
	if i < 0 {
		wrong("the topology no longer has the storage server, so it is not known what its PersistentVolumes point to; post the START before the stack changes, or only the END")
		return faults, nil
	}
	server := serverOf(p.next.Topology, out.Nodes[i].ID)
	silent, err := p.isSilent(server.ID)
	if err != nil {
		return nil, err
	}
	for _, pv := range p.before.Params.Cluster.PersistentVolumes {
		point := pointOf(p.next.Topology, server, pv.NFSServerCP)
		switch {
		case point == nil || len(point.Addresses) == 0:
			wrong("nfs_server_cp %q is no connection point of the storage server %s (%s) with an address", pv.NFSServerCP, server.Name, server.ID)
		case goesWith(point.MemberStackID, server):
			wrong("the PersistentVolumes of %s point to %s of %q, a port in the nested stack %s, which Heat replaces with the storage server; define the port outside of the group",
				pv.ManifestPath, point.Addresses[0], point.Name, point.MemberStackID)
		}
	}
	for _, wanted := range p.before.Params.Cluster.StorageServer.Volumes {
		at := volumeAt(p.next.Topology, wanted.ResourceID)
		switch {
		case at < 0:
			wrong("the volume %q is not in the topology", wanted.ResourceID)
		case goesWith(p.next.Topology.Volumes[at].MemberStackID, server):
			wrong("the volume %q stands in the nested stack %s, which Heat replaces with the storage server; define the volume outside of the group",
				wanted.ResourceID, server.MemberStackID)
		}
	}
	for _, pv := range out.PersistentVolumes {
		if option := mountsByVersion3(pv.Object); option != "" {
			wrong("PersistentVolume %s has the mount option %q; NFSv3 clients lose their locks without notice if the server is replaced", pv.Name, option)
		}
	}
	replaced := slices.ContainsFunc(out.Nodes[i].Withheld, func(w api.Withheld) bool { return w.Reason == api.ReasonVolumeReplaced }) // that is said
	if w := waitsForExports(out); w != "" && !replaced && (!silent || p.t.Instance.CarriedOver.ClientRecorder != server.ID) {
		wrong("%s, so it may not have the record of its clients on the volume; heal once it does, or replace it and post only the END", w)
	}
	if p.healed.oldServerIsOffBy == "" {
		faults = append(faults, p.checkCloud()...)
	}
	return faults, nil
}

// waitsForExports is what the PersistentVolumes wait for until the storage server serves its present
// document, "" for nothing.
func waitsForExports(out plan.Output) string {
	for _, n := range out.Nodes {
		for _, w := range n.Withheld {
			if w.Section == api.SectionPersistentVolumes && w.Reason == api.ReasonWaitingForExports {
				return w.Message
			}
		}
	}
	return ""
}

// silentServer warns of a storage server that is silent. The cloud's word may be no proof: it may run on
// a hypervisor that Nova does not reach. And what it was told last, it may never have done.
func (p *postRequest) silentServer(e *reconcile.Effect) (list fault.List) {
	if p.r.Phase != api.PhaseStart || !p.keeps() {
		return nil
	}
	for _, n := range e.Plan.Nodes {
		if silent, err := p.isSilent(n.ID); n.Role != api.RoleStorage || err != nil || !silent {
			continue
		}
		if p.healed.oldServerIsOffBy == "" {
			list = append(list, atVolumes.Fault(fmt.Sprintf("the storage server %s (%s) is silent; if its hypervisor is down or cut off, Nova and Cinder may show it as gone while it still writes: "+
				"power that hypervisor off before the server is deleted", n.Name, n.ID)))
		}
		if w := waitsForExports(e.Plan); w != "" {
			list = append(list, atVolumes.Fault(w+"; it is silent, and had the record of its clients on the volume when it was last seen to serve"))
		}
	}
	return list
}

// isSilent reports whether nothing is heard of a node.
func (p *postRequest) isSilent(id string) (bool, error) {
	record, found, err := p.t.Nodes().Get(id)
	return found && !p.s.Reconciler.Presence.Heard(record), err
}

// checkCloud wants a cloud that can show that the old server is gone.
func (p *postRequest) checkCloud() fault.List {
	const so = "; or state `oldServerIsOff` once you know that the old storage server does not run and never will"
	left := p.stack.Remains
	switch {
	case left == nil && p.stack.RemainsAway != nil:
		return fault.List{atVolumes.Fault(cannotKeep + "the cloud does not say whether the old storage server is gone: " + p.stack.RemainsAway.Error() + so)}
	case left == nil:
		return fault.List{atVolumes.Fault(cannotKeep + "no cloud is configured that could show that the old storage server is gone: set openstack.cloud in the controller's configuration" + so)}
	}
	var faults fault.List
	for _, wanted := range p.before.Params.Cluster.StorageServer.Volumes {
		at := volumeAt(p.next.Topology, wanted.ResourceID)
		if at < 0 {
			continue
		}
		if _, shown := left.Volumes[p.next.Topology.Volumes[at].ID]; !shown {
			faults = append(faults, atVolumes.Fault(fmt.Sprintf(cannotKeep+"Cinder does not show the volume %s (%s) to the controller's credential, so it cannot show when the old storage server no longer has it%s",
				p.next.Topology.Volumes[at].ID, wanted.ResourceID, so)))
		}
	}
	return faults
}

// checkVolumeIDs refuses a request with which a volume of the storage server is another one: the
// PersistentVolumes would lead to other data. The plan would withhold it; an older controller has not
// noted which one it is.
func (p *postRequest) checkVolumeIDs() (faults fault.List, err error) {
	if p.before.Topology == nil || p.next.Topology == nil {
		return nil, nil
	}
	kept := p.t.Instance.CarriedOver.VolumeIDs
	for _, wanted := range p.before.Params.Cluster.StorageServer.Volumes {
		before, at := kept[wanted.ResourceID], volumeAt(p.next.Topology, wanted.ResourceID)
		if i := volumeAt(p.before.Topology, wanted.ResourceID); kept == nil && i >= 0 {
			before = p.before.Topology.Volumes[i].ID
		}
		if before == "" || at < 0 || p.next.Topology.Volumes[at].ID == before {
			continue
		}
		now := p.next.Topology.Volumes[at].ID
		record, _, err := p.t.Volumes().Get(now)
		if err != nil {
			return nil, err
		}
		if record.FilesystemUUID != "" && record.FilesystemUUID != api.FilesystemUUID(now) { // it was adopted
			continue
		}
		place := desired.AtStack
		if p.r.Topology != nil {
			place = desired.AtTopology.Key("volumes").Index(at).Key("id")
		}
		faults = append(faults, place.Fault(plan.VolumeReplaced(wanted.ResourceID, now, before)))
	}
	return faults, nil
}

// stranded is the problem of an END whose PersistentVolumes point to another server than the
// topology has, nil for none. Nothing of the END is in force then: the old addresses are what
// the PersistentVolumes are withdrawn by.
func (p *postRequest) stranded(out plan.Output) (*api.Problem, error) {
	if p.r.Phase != api.PhaseEnd || !p.keeps() {
		return nil, nil
	}
	list, err := p.strandedBy(out)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return api.NewProblem(api.ProblemVolumesStranded, strings.Join(list, "; ")+
		". Nothing was changed: give the new storage server the old address and post the END again, or delete the claims and heal with withdraw"), nil
}

// strandedBy are the PersistentVolumes in use that point to another address than the plan's storage
// server has. It may have none yet.
func (p *postRequest) strandedBy(out plan.Output) (list []string, err error) {
	bound, err := reconcile.BoundVolumes(p.t, out.Nodes)
	unresolved := slices.ContainsFunc(out.Nodes, func(n plan.Node) bool {
		return slices.ContainsFunc(n.Withheld, func(w api.Withheld) bool { return w.Reason == api.ReasonConnectionPointUnresolved })
	})
	for _, b := range bound {
		has := "no address"
		if next := reconcile.Find(out.PersistentVolumes, b.Name); next != nil && !reconcile.SameServer(next.Server, b.Server) {
			has = next.Server
		} else if next != nil || !unresolved {
			continue
		}
		list = append(list, fmt.Sprintf("PersistentVolume %s, bound by claim %s, points to %s, and the new storage server has %s",
			b.Name, cmp.Or(b.Claim, "(not reported)"), b.Server, has))
	}
	return list, err
}

// lookAtOld has the cloud show the storage server that the START of a HEAL replaces, if the
// PersistentVolumes stay: later it has to show that it is gone.
func (s *Service) lookAtOld(ctx context.Context, r api.OperationRequest, o *stack.Observation) error {
	if r.Operation != api.Heal || r.Phase != api.PhaseStart || r.OldServerIsOff || r.PersistentVolumes == api.WithdrawPersistentVolumes {
		return nil
	}
	var servers, volumes []string
	err := s.Runner.View(o.InstanceID, func(t *tx.Tx) error {
		d, err := desired.InForce(t)
		if err != nil || d.Params == nil || d.Topology == nil || d.Params.Cluster == nil || d.Params.Cluster.StorageServer == nil || !d.Params.Cluster.StorageServer.KeepVolumes {
			return err
		}
		roles := topology.Assign(d.Params, d.Topology, fault.Root).Roles
		for _, server := range d.Topology.Servers {
			if roles[server.ID] == api.RoleStorage && slices.ContainsFunc(r.VnfcInstanceIds, func(name string) bool {
				named := topology.Named(d.Topology.Servers, name)
				// A retry of Tacker's v2 API names the server that was replaced before its END failed.
				return len(named) == 0 || slices.ContainsFunc(named, func(n api.Server) bool { return n.ID == server.ID })
			}) {
				servers = []string{server.ID}
			}
		}
		for _, v := range slices.Concat(d.Topology.Volumes, volumesOf(o.Topology())) {
			volumes = append(volumes, v.ID)
		}
		return nil
	})
	if err != nil || servers == nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, stack.Briefly)
	defer cancel()
	left, err := s.Observer.Source.Remains(limited, o.Request, servers, volumes)
	switch {
	case err == nil:
		o.Remains = &left
	case errors.Is(err, stack.ErrNotGiven), errors.As(err, &o.RemainsAway):
	case limited.Err() != nil && ctx.Err() == nil:
		o.RemainsAway = api.NewProblem(api.ProblemCloudError, fmt.Sprintf("it has not answered within %s", stack.Briefly))
	default:
		return err
	}
	return nil
}

// volumeAt is where the volume of a resource stands in a topology, -1 if it does not.
func volumeAt(t *api.Topology, resourceID string) int {
	return slices.IndexFunc(t.Volumes, func(v api.TopologyVolume) bool { return v.ResourceID == resourceID })
}

func volumesOf(t *api.Topology) []api.TopologyVolume {
	if t == nil {
		return nil
	}
	return t.Volumes
}

// goesWith reports whether what stands in this nested stack is replaced with the server.
func goesWith(memberStackID string, server api.Server) bool {
	return memberStackID != "" && memberStackID == server.MemberStackID
}

func serverOf(t *api.Topology, id string) api.Server {
	return t.Servers[slices.IndexFunc(t.Servers, func(s api.Server) bool { return s.ID == id })]
}

// pointOf is the connection point of that name, of the server or of the stack; nil for none.
func pointOf(t *api.Topology, server api.Server, name string) *api.ConnectionPoint {
	for _, points := range [][]api.ConnectionPoint{server.ConnectionPoints, t.ConnectionPoints} {
		if i := slices.IndexFunc(points, func(c api.ConnectionPoint) bool { return c.Name == name }); i >= 0 {
			return &points[i]
		}
	}
	return nil
}

// mountsByVersion3 is the mount option of a PersistentVolume that has clients use NFSv3, "" for none.
func mountsByVersion3(object json.RawMessage) string {
	var pv struct {
		Spec struct {
			MountOptions []string `json:"mountOptions"`
		} `json:"spec"`
	}
	if json.Unmarshal(object, &pv) != nil { // it was validated
		return ""
	}
	for _, given := range pv.Spec.MountOptions {
		for option := range strings.SplitSeq(given, ",") {
			name, value, _ := strings.Cut(option, "=")
			if option == "v3" || value == "3" && (name == "vers" || name == "nfsvers") {
				return option
			}
		}
	}
	return ""
}
