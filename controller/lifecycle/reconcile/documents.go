package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Apply plans the desired state in force and writes what follows from it. It revokes
// no identity: see Retire. What a master has reported is of the document that it had: if the
// plan changes that, it is planned once more, so that what is withheld follows from what is true now.
// What the first plan has decided stays (CarriedOver), such as a wave of an upgrade, or a version that a
// node was told: the reports that it went by were true when the reports came.
func (r *Reconciler) Apply(t *tx.Tx) (*Effect, error) {
	first, again, err := r.apply(t)
	if err != nil || !again {
		return first, err
	}
	e, _, err := r.apply(t)
	if err == nil {
		e.Changed = slices.Compact(slices.Sorted(slices.Values(slices.Concat(first.Changed, e.Changed))))
	}
	return e, err
}

// apply also reports whether a master of before has another document.
func (r *Reconciler) apply(t *tx.Tx) (e *Effect, again bool, err error) {
	d, err := desired.InForce(t)
	if err != nil {
		return nil, false, err
	}
	if err := d.Valid(); err != nil && d.Topology != nil { // without servers there is nothing to plan
		return nil, false, &outdated{err}
	}
	if err := needClusterSecret(t, d); err != nil {
		return nil, false, err
	}
	out, nodes, err := r.Plan(t, d)
	if err != nil {
		return nil, false, err
	}
	if len(out.Faults) > 0 {
		return nil, false, &outdated{fmt.Errorf("planning instance %s: %w", t.Instance.ID, out.Faults)}
	}
	t.Instance.CarriedOver = store.CarriedOver(out.CarriedOver)
	if len(out.CarriedOver.Members) == 0 {
		t.Instance.ClusterFacts = nil // of a cluster whose masters are all gone
	}
	e = &Effect{Plan: out}
	expected := make([]string, len(out.Nodes))
	for i, n := range out.Nodes {
		expected[i] = n.ID
		old, found := nodes[n.ID]
		changed, err := r.putNode(t, n, old, found)
		if err != nil {
			return nil, false, err
		}
		if changed {
			e.Changed = append(e.Changed, n.ID)
			again = again || found && n.Role == api.RoleMaster
		}
	}
	if err := expectNoMore(t, expected); err != nil {
		return nil, false, err
	}
	return e, again, r.putVolumes(t, out.Volumes)
}

// putNode writes a planned node, whose record is old if it is found, and reports whether it
// is one of Effect.Changed.
func (r *Reconciler) putNode(t *tx.Tx, planned plan.Node, old store.Node, found bool) (changed bool, err error) {
	node := old
	if !found || old.InstanceID != t.Instance.ID {
		if found && old.Expected {
			// Requests that name it are refused; this is a desired state that was gone
			// back to after the server had moved. It is theirs until they let go of it.
			return false, nil
		}
		if found { // it leaves an instance that no longer expects it, and enrolls anew
			if err := r.Permits.NodeGone(t.Tx, planned.ID); err != nil {
				return false, err
			}
		}
		node = store.Node{ID: planned.ID, InstanceID: t.Instance.ID, Epoch: t.Instance.Epoch}
	}
	if !node.Expected && !node.Identity.Live() {
		node.Status, node.KubernetesVersion = nil, "" // of another time: what it says has to be said again
	}
	changed = planned.Asked != "" && planned.Asked != node.Asked
	node.Name, node.Role, node.Addresses = planned.Name, planned.Role, planned.Addresses
	node.Withheld, node.Asked, node.Expected = planned.Withheld, planned.Asked, true
	node.Conditions = planned.Config.ConditionTypes()
	if k := planned.Config.Kubernetes; k != nil {
		node.KubernetesVersion = k.Version
	} else if node.Identity == nil { // no machine has read the document that said it
		node.KubernetesVersion = ""
	}
	if digest := planned.Config.Digest(); digest != node.Digest {
		changed = true
		if err := putDocument(t, &node, planned.Config, digest); err != nil {
			return false, err
		}
	}
	if found && store.Same(old, node) {
		return changed, nil
	}
	t.Instance.NodeIDs = with(t.Instance.NodeIDs, node.ID)
	t.Changed(node.ID, notify.Nodes)
	return changed, t.Nodes().Put(node.ID, node)
}

// putDocument gives the node another document under a new generation. It is stored
// sealed, because it may hold secrets.
func putDocument(t *tx.Tx, n *store.Node, config api.NodeConfig, digest string) error {
	n.Generation++
	n.Digest = digest
	config.Generation = n.Generation
	n.Files = nil
	for _, f := range config.Files() {
		n.Files = append(n.Files, f.Sha256)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing a node's document: %w", err)
	}
	n.Config, err = t.Store.Seal(text)
	return err
}

// Document is the document of a node, with its secrets.
func Document(s *store.Store, n store.Node) (config api.NodeConfig, err error) {
	text, err := s.Unseal(n.Config)
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		return config, fmt.Errorf("reading the document of node %s: %w", n.ID, err)
	}
	return config, nil
}

// expectNoMore marks the nodes that the topology in force does not have.
func expectNoMore(t *tx.Tx, expected []string) error {
	for _, id := range t.Instance.NodeIDs {
		if slices.Contains(expected, id) {
			continue
		}
		n, found, err := t.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || n.InstanceID != t.Instance.ID || !n.Expected {
			continue
		}
		n.Expected, n.Withheld, n.Asked = false, nil, ""
		if err := dropOwned(t, &n); err != nil {
			return err
		}
		t.Changed(id, notify.Nodes)
		if err := t.Nodes().Put(id, n); err != nil {
			return err
		}
	}
	return nil
}

// dropOwned removes what one master does for the whole cluster from a master that left: until
// its identity ends it keeps its last document, against the master that speaks now.
func dropOwned(t *tx.Tx, n *store.Node) error {
	owned := []string{api.ConditionPersistentVolumesRegistered, api.ConditionClusterMembersCurrent, api.ConditionClusterMembersLeft, api.ConditionClusterMembersDrained, api.ConditionClusterAccessReady, api.ConditionPodNetworkReady}
	if !slices.ContainsFunc(owned, func(condition string) bool { return slices.Contains(n.Conditions, condition) }) {
		return nil
	}
	config, err := Document(t.Store, *n)
	if err != nil {
		return err
	}
	config.PersistentVolumes, config.ClusterMembers, config.ClusterDepartures, config.ClusterDrains, config.ClusterAccess, config.PodNetwork = nil, nil, nil, nil, nil, nil
	n.Conditions = config.ConditionTypes()
	return putDocument(t, n, config, config.Digest())
}

// with is the ordered list with the id in it.
func with(ids []string, id string) []string {
	i, found := slices.BinarySearch(ids, id)
	if found {
		return ids
	}
	return slices.Insert(ids, i, id)
}
