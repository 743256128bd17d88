package lcm

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// effect is what a reconciliation did.
type effect struct {
	plan plan.Output
	// changed are the nodes whose document is another than before, new ones included.
	changed []string
}

// reconcile plans the desired state in force and writes what follows from it.
// Nobody's identity is revoked here: see retire.
func (u *unit) reconcile() (*effect, error) {
	d, err := u.desired()
	if err != nil {
		return nil, err
	}
	if err := d.valid(); err != nil {
		return nil, &outdated{err}
	}
	out, err := u.plan(d)
	if err != nil {
		return nil, err
	}
	if len(out.Faults) > 0 {
		return nil, &outdated{fmt.Errorf("planning instance %s: %w", u.inst.ID, out.Faults)}
	}
	u.inst.Standing = store.Standing(out.Standing)
	e := &effect{plan: out}
	expected := make([]string, len(out.Nodes))
	for i, n := range out.Nodes {
		expected[i] = n.ID
		changed, err := u.putNode(n)
		if err != nil {
			return nil, err
		}
		if changed {
			e.changed = append(e.changed, n.ID)
		}
	}
	if err := u.expectNoMore(expected); err != nil {
		return nil, err
	}
	return e, u.putVolumes(out.Volumes)
}

// putNode writes a planned node and says whether its document changed.
func (u *unit) putNode(planned plan.Node) (changed bool, err error) {
	old, found, err := u.tx.Nodes().Get(planned.ID)
	if err != nil {
		return false, err
	}
	node := old
	if !found || old.InstanceID != u.inst.ID {
		if found && old.Expected {
			// Requests that name it are refused; this is a desired state that was gone
			// back to after the server had moved. It is theirs until they let go of it.
			return false, nil
		}
		if found { // it leaves an instance that no longer expects it, and enrols anew
			if err := u.Permits.NodeGone(u.tx, planned.ID); err != nil {
				return false, err
			}
		}
		node = store.Node{ID: planned.ID, InstanceID: u.inst.ID, Epoch: u.inst.Epoch}
	}
	if !node.Expected && !node.Identity.Live() {
		node.Status = nil // of another time: what it says has to be said again
	}
	node.Name, node.Role, node.Addresses = planned.Name, planned.Role, planned.Addresses
	node.Withheld, node.Expected = planned.Withheld, true
	node.Conditions = planned.Config.ConditionTypes()
	if digest := planned.Config.Digest(); digest != node.Digest {
		changed = true
		if err := u.putDocument(&node, planned.Config, digest); err != nil {
			return false, err
		}
	}
	if found && same(old, node) {
		return changed, nil
	}
	u.inst.NodeIDs = with(u.inst.NodeIDs, node.ID)
	u.changed(node.ID, notify.Nodes)
	return changed, u.tx.Nodes().Put(node.ID, node)
}

func (u *unit) putDocument(n *store.Node, config api.NodeConfig, digest string) error {
	n.Generation++
	n.Digest = digest
	config.Generation = n.Generation
	n.Files = nil
	for _, f := range config.Files() {
		n.Files = append(n.Files, f.Sha256)
	}
	sealed, err := u.sealDocument(config)
	n.Config = sealed
	return err
}

// expectNoMore marks the nodes that the topology in force does not have.
func (u *unit) expectNoMore(expected []string) error {
	for _, id := range u.inst.NodeIDs {
		if slices.Contains(expected, id) {
			continue
		}
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || n.InstanceID != u.inst.ID || !n.Expected {
			continue
		}
		n.Expected, n.Withheld = false, nil
		if err := u.silence(&n); err != nil {
			return err
		}
		u.changed(id, notify.Nodes)
		if err := u.tx.Nodes().Put(id, n); err != nil {
			return err
		}
	}
	return nil
}

// silence has a master that left register nothing any more: until its identity ends it
// goes on with its last document, against the one that speaks for the cluster now.
func (u *unit) silence(n *store.Node) error {
	if !slices.Contains(n.Conditions, api.ConditionPersistentVolumesRegistered) {
		return nil
	}
	config, err := u.openDocument(*n)
	if err != nil {
		return err
	}
	config.PersistentVolumes = nil
	n.Conditions = config.ConditionTypes()
	return u.putDocument(n, config, config.Digest())
}

// retire ends the life of nodes that the topology in force does not have: their
// identities are void, and formats that they began are interrupted.
func (u *unit) retire(why string) error {
	for _, id := range u.inst.NodeIDs {
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || n.InstanceID != u.inst.ID || n.Expected {
			continue
		}
		if n.Identity.Live() {
			u.changed(id, notify.Nodes)
			if err := u.Enrolment.RevokeTx(u.tx, id, why); err != nil {
				return fmt.Errorf("revoking the identity of node %s: %w", id, err)
			}
		}
		if err := u.Permits.NodeGone(u.tx, id); err != nil {
			return fmt.Errorf("interrupting the formats of node %s: %w", id, err)
		}
	}
	return nil
}

// with is the ordered list with the id in it.
func with(ids []string, id string) []string {
	i, found := slices.BinarySearch(ids, id)
	if found {
		return ids
	}
	return slices.Insert(ids, i, id)
}
