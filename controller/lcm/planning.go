package lcm

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// plan is what follows from a desired state and from what is known of its volumes,
// files and nodes.
func (u *unit) plan(d *desired) (plan.Output, error) {
	in := plan.Input{
		Epoch: u.Store.Epoch(), Params: d.params, Topology: d.Topology,
		Standing: plan.Standing(u.inst.Standing), Withdraw: d.Withdraw,
	}
	if d.Topology == nil {
		return plan.Make(in), nil
	}
	var err error
	if in.Files, err = u.planned(d.Desired); err != nil {
		return plan.Output{}, err
	}
	if in.Volumes, err = u.knownVolumes(d.Topology); err != nil {
		return plan.Output{}, err
	}
	if in.Nodes, err = u.observed(d); err != nil {
		return plan.Output{}, err
	}
	return plan.Make(in), nil
}

// planned is what the plan for a desired state has to know of the package files.
func (u *unit) planned(d store.Desired) (map[string]plan.File, error) {
	files, err := u.files()
	if err != nil {
		return nil, err
	}
	known := make(map[string]plan.File, len(files))
	for path, f := range files {
		if f.Judged != judgedFor(d) {
			f.Judged, f.Faults, f.Manifests = "", nil, nil // what was found then says nothing of these parameters
		}
		switch usable := f.Usable(); {
		case usable != nil:
			known[path] = planFile(usable)
		case len(f.Faults) > 0:
			known[path] = plan.File{Problem: f.Faults[0].Message}
		default:
			known[path] = plan.File{Problem: path + " is still being checked"}
		}
	}
	return known, nil
}

func planFile(c *store.Content) plan.File {
	f := plan.File{SHA256: c.SHA256, SizeBytes: c.SizeBytes}
	for _, m := range c.Manifests {
		f.Manifests = append(f.Manifests, plan.Manifest(m))
	}
	return f
}

func (u *unit) knownVolumes(t *api.Topology) (map[string]plan.Volume, error) {
	all := map[string]plan.Volume{}
	for _, v := range t.Volumes {
		record, found, err := u.tx.Volumes().Get(v.ID)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		known := plan.Volume{FilesystemUUID: record.FilesystemUUID}
		if record.Reformat && record.Permit.Epoch == u.Store.Epoch() {
			known.ReformatBy = record.Permit.NodeID
		}
		if record.Permit.State == api.PermitInterrupted {
			known.InterruptedBy = record.Permit.NodeID
		}
		if u.heldByOther(record) {
			known.HeldBy = fmt.Sprintf("node %s of VNF instance %s", record.NodeID, record.InstanceID)
		}
		all[v.ID] = known
	}
	return all, nil
}

func (u *unit) heldByOther(v store.Volume) bool {
	return v.InstanceID != u.inst.ID && v.NodeID != ""
}

// observed is what PersistentVolumes depend on: the storage server and the masters.
// Workers, of which there are many, are not read.
func (u *unit) observed(d *desired) (map[string]plan.Observed, error) {
	if d.params.Cluster == nil || d.params.Cluster.StorageServer == nil {
		return nil, nil
	}
	all := map[string]plan.Observed{}
	for id, role := range topology.Assign(d.params, d.Topology, fault.Root).Roles {
		if role != api.RoleStorage && role != api.RoleMaster {
			continue
		}
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return nil, err
		}
		if found && n.InstanceID == u.inst.ID {
			all[id] = u.observe(n)
		}
	}
	return all, nil
}

func (u *unit) observe(n store.Node) plan.Observed {
	seen := plan.Observed{Heard: u.heard(n)}
	if c := proven(n, u.Store.Epoch(), api.ConditionExportsServed); c != nil && c.Status == api.ConditionTrue {
		seen.Serves = n.Digest
	}
	return seen
}

// heard says whether the node has an identity and is not lost.
func (s *Service) heard(n store.Node) bool {
	return n.Identity.Live() && !s.presence.lost(n.ID)
}
