package reconcile

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Plan is what follows from a desired state and from what is known of its volumes,
// files and nodes, and the records of the topology's servers as it has read them, by id. It
// writes nothing.
func (r *Reconciler) Plan(t *tx.Tx, d *desired.State) (plan.Output, map[string]store.Node, error) {
	in := plan.Input{
		Epoch: t.Store.Epoch(), Params: d.Params, Topology: d.Topology,
		CarriedOver: plan.CarriedOver(t.Instance.CarriedOver), Withdraw: d.WithdrawPersistentVolumes,
		Leaving: d.Leaving, Force: d.Force,
	}
	if d.Topology == nil {
		return plan.Make(in), nil, nil
	}
	var err error
	if in.Files, err = packagefile.ForPlan(t, d.Desired); err != nil {
		return plan.Output{}, nil, err
	}
	if in.Volumes, err = knownVolumes(t, d.Topology); err != nil {
		return plan.Output{}, nil, err
	}
	nodes, err := nodesOf(t, d.Topology)
	if err != nil {
		return plan.Output{}, nil, err
	}
	if in.Cluster, err = clusterOf(t, d); err != nil {
		return plan.Output{}, nil, err
	}
	if in.Nodes, err = r.observed(t, d, nodes); err != nil {
		return plan.Output{}, nil, err
	}
	if in.CarriedOver.RegisteredAt, err = registeredAt(t, d, nodes); err != nil {
		return plan.Output{}, nil, err
	}
	in.Agents = agents(t, nodes)
	if in.CarriedOver.VolumeServer, err = volumeServer(t, d); err != nil {
		return plan.Output{}, nil, err
	}
	if in.VolumeServerName, err = nameOf(t, in.CarriedOver.VolumeServer); err != nil {
		return plan.Output{}, nil, err
	}
	return plan.Make(in), nodes, nil
}

// nodesOf is the record of each server of a topology that has one, by id. Another
// instance's may be among them.
func nodesOf(t *tx.Tx, topology *api.Topology) (map[string]store.Node, error) {
	all := make(map[string]store.Node, len(topology.Servers))
	for _, s := range topology.Servers {
		n, found, err := t.Nodes().Get(s.ID)
		if err != nil {
			return nil, err
		}
		if found {
			all[s.ID] = n
		}
	}
	return all, nil
}

// volumeServer is the storage server that may write to the volumes of PersistentVolumes that are kept: the
// one that is carried over or, if nothing was kept before, the one whose document names them.
func volumeServer(t *tx.Tx, d *desired.State) (id string, err error) {
	c := d.Params.Cluster
	if id = t.Instance.CarriedOver.VolumeServer; id != "" || c == nil || c.StorageServer == nil || !c.StorageServer.KeepVolumes {
		return id, nil
	}
	for _, wanted := range c.StorageServer.Volumes {
		for _, v := range d.Topology.Volumes {
			if v.ResourceID != wanted.ResourceID {
				continue
			}
			record, found, err := t.Volumes().Get(v.ID)
			if err != nil {
				return "", err
			}
			if found && record.InstanceID == t.Instance.ID && record.NodeID != "" {
				return record.NodeID, nil
			}
		}
	}
	return "", nil
}

// registeredAt are the addresses of the PersistentVolumes that are to be kept from now on: those that are carried
// over or, if nothing was kept before, those of the document with which they are registered.
func registeredAt(t *tx.Tx, d *desired.State, nodes map[string]store.Node) ([]string, error) {
	before, c := t.Instance.CarriedOver, d.Params.Cluster
	if len(before.RegisteredAt) > 0 || !before.Registered || c == nil || c.StorageServer == nil || !c.StorageServer.KeepVolumes {
		return before.RegisteredAt, nil
	}
	for _, n := range nodes {
		if n.Role != api.RoleMaster || n.InstanceID != t.Instance.ID {
			continue
		}
		config, err := Document(t.Store, n)
		if err != nil {
			return nil, err
		}
		if s := config.PersistentVolumes; s != nil && s.State == api.PersistentVolumesPresent { // one master has it
			return s.Servers, nil
		}
	}
	return nil, nil
}

// nameOf is the name of a node that the topology may lack, "" for none.
func nameOf(t *tx.Tx, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	n, _, err := t.Nodes().Get(id)
	return n.Name, err
}

// agents is what the instance's nodes have said of their agents.
func agents(t *tx.Tx, nodes map[string]store.Node) map[string]api.Agent {
	all := map[string]api.Agent{}
	for id, n := range nodes {
		if n.Agent != nil && n.InstanceID == t.Instance.ID {
			all[id] = *n.Agent
		}
	}
	return all
}

func knownVolumes(t *tx.Tx, topology *api.Topology) (map[string]plan.Volume, error) {
	all := map[string]plan.Volume{}
	for _, v := range topology.Volumes {
		record, found, err := t.Volumes().Get(v.ID)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		known := plan.Volume{FilesystemUUID: record.FilesystemUUID}
		if record.ReformatRequested && record.Permit.Epoch == t.Store.Epoch() {
			known.ReformatBy = record.Permit.NodeID
		}
		if record.Permit.State == api.PermitInterrupted {
			known.InterruptedBy = record.Permit.NodeID
		}
		if heldByOther(t, record) {
			known.HeldBy = fmt.Sprintf("node %s of VNF instance %s", record.NodeID, record.InstanceID)
		}
		all[v.ID] = known
	}
	return all, nil
}

func heldByOther(t *tx.Tx, v store.Volume) bool {
	return v.InstanceID != t.Instance.ID && v.NodeID != ""
}

// observed is what is known of the nodes whose role the plan depends on. Workers are among them if
// nodehitch makes the cluster.
func (r *Reconciler) observed(t *tx.Tx, d *desired.State, nodes map[string]store.Node) (map[string]plan.Observed, error) {
	if c := d.Params.Cluster; c == nil || c.StorageServer == nil && c.Members == nil {
		return nil, nil
	}
	all := map[string]plan.Observed{}
	for id, role := range topology.Assign(d.Params, d.Topology, fault.Root).Roles {
		reads := Planned(role) || role == api.RoleWorker && d.Params.Cluster.Kubernetes != nil
		n, found := nodes[id]
		if !found || !reads || n.InstanceID != t.Instance.ID {
			continue
		}
		if n.KubernetesVersion == "" && madeByNodehitch(n) { // an older controller has not noted it
			config, err := Document(t.Store, n)
			if err != nil {
				return nil, err
			}
			n.KubernetesVersion = config.Kubernetes.Version
		}
		all[id] = r.observe(t, n)
	}
	return all, nil
}

func (r *Reconciler) observe(t *tx.Tx, n store.Node) plan.Observed {
	isTrue := func(conditionType string) bool {
		c := progress.ReportedForCurrent(n, t.Store.Epoch(), conditionType)
		return c != nil && c.Status == api.ConditionTrue
	}
	seen := plan.Observed{Enrolled: n.Identity.Live(), Heard: r.Presence.Heard(n)}
	if isTrue(api.ConditionExportsServed) {
		seen.Serves = n.Digest
	}
	if n.Role == api.RoleMaster && slices.Contains(n.Conditions, api.ConditionClusterMember) { // workers, which are many, become members without a plan
		seen.Anew = seen.Enrolled && !n.StatusOf.Equal(n.Identity.EnrolledAt)
		c := progress.ReportedForCurrent(n, t.Store.Epoch(), api.ConditionClusterMember)
		seen.Member = c != nil && (c.Status == api.ConditionTrue || c.Reason == api.ReasonNodeNotReady && madeByNodehitch(n))
		seen.NotJoined = c != nil && c.Status != api.ConditionTrue && (c.Reason == api.ReasonNotJoined || c.Reason == api.ReasonWaitingForCluster)
	}
	if n.Identity != nil && (n.Expected || n.Identity.Live()) { // else no machine has read a document, or it is gone
		seen.Version = n.KubernetesVersion
	}
	seen.Healthy = isTrue(api.ConditionControlPlaneHealthy)
	seen.Current = isTrue(api.ConditionKubernetesInstalled) && isTrue(api.ConditionClusterMember) && (seen.Healthy || n.Role != api.RoleMaster)
	seen.Drained = isTrue(api.ConditionClusterMembersDrained)
	if f := progress.ControlPlane(n, t.Store.Epoch()); f != nil {
		seen.RenewalDue = f.RenewalDue
	}
	return seen
}

// madeByNodehitch reports whether the node's agent joins the machine. It says NodeNotReady once
// it is done, and the Node may wait for the Pods' network, which the first member applies. Another
// program may have to make the cluster again at that moment.
func madeByNodehitch(n store.Node) bool {
	return slices.Contains(n.Conditions, api.ConditionKubernetesInstalled)
}
