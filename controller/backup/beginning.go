package backup

import (
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Carried counts what the replaced store knew and the backup did not.
type Carried struct {
	// Identities of nodes that were given, renewed or revoked since.
	Identities int
	// Permits of volumes that were given or used since.
	Permits int
	// Tokens that were revoked since.
	Tokens int
}

// epochChange is what is done to the records of a backup in the transaction in which
// their new epoch begins. Most of it is done by the epoch alone; see store.NewEpoch.
type epochChange struct {
	// by is who restores.
	by string
	// old is the store that is replaced, nil if there is none or it cannot be read.
	old *store.Store
	// after is an epoch that the new life has to exceed, besides that of old.
	after int64
	out   *Restored
}

// epoch is one that the new life has to exceed.
func (b *epochChange) epoch() int64 {
	if b.old == nil {
		return b.after
	}
	return max(b.after, b.old.Epoch())
}

func (b *epochChange) change(tx *store.Tx, epoch int64) error {
	tx.By(b.by)
	if err := b.expire(tx, epoch); err != nil {
		return err
	}
	if b.old != nil {
		err := b.old.View(func(old *store.Tx) error { return b.carry(tx, old) })
		if err != nil {
			return err
		}
	}
	tokens, err := tx.Tokens().All()
	for _, t := range tokens {
		if t.RevokedAt == nil {
			b.out.Tokens++
		}
	}
	return err
}

// expire ends what is good once and may have been used since the backup:
// the leave to enroll again, and numbers of operations, which a client may be
// waiting for. Numbers continue at the epoch; no client posts one in each second of an epoch.
func (b *epochChange) expire(tx *store.Tx, epoch int64) error {
	nodes, err := tx.Nodes().All()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if !n.MayReenroll {
			continue
		}
		n.MayReenroll = false
		if err := tx.Nodes().Put(n.ID, n); err != nil {
			return err
		}
	}
	instances, err := tx.Instances().All()
	if err != nil {
		return err
	}
	b.out.Instances = len(instances)
	for _, i := range instances {
		i.LastSequence = max(i.LastSequence, epoch)
		if err := tx.Instances().Put(i.ID, i); err != nil {
			return err
		}
	}
	return nil
}

// carry brings from the replaced store what only ever grows, and what an operator
// would otherwise have to remember: who was revoked, which certificates are newer, which volumes
// there are and what was formatted, and which API tokens were revoked.
func (b *epochChange) carry(tx, old *store.Tx) error {
	if err := b.carryNodes(tx, old); err != nil {
		return err
	}
	if err := b.carryVolumes(tx, old); err != nil {
		return err
	}
	return b.carryTokens(tx, old)
}

// carryNodes takes over what is known of each identity. A server that was revoked by
// hand stays out even if the backup does not know it yet.
func (b *epochChange) carryNodes(tx, old *store.Tx) error {
	nodes, err := old.Nodes().All()
	if err != nil {
		return err
	}
	for _, last := range nodes {
		node, found, err := tx.Nodes().Get(last.ID)
		if err != nil {
			return err
		}
		if !found && last.Identity != nil && last.Identity.RevokedByHand {
			if node, err = unexpected(tx, last); err != nil {
				return err
			}
		}
		identity := stricter(node.Identity, last.Identity)
		if node.InstanceID != last.InstanceID || identity == node.Identity {
			continue
		}
		node.Identity = identity
		b.out.Carried.Identities++
		if err := tx.Nodes().Put(node.ID, node); err != nil {
			return err
		}
	}
	return nil
}

// unexpected is a node of an instance that the backup has, and without the server;
// no node, if it does not have the instance: its join token is void then.
func unexpected(tx *store.Tx, last store.Node) (store.Node, error) {
	instance, found, err := tx.Instances().Get(last.InstanceID)
	if err != nil || !found {
		return store.Node{}, err
	}
	i, _ := slices.BinarySearch(instance.NodeIDs, last.ID)
	instance.NodeIDs = slices.Insert(instance.NodeIDs, i, last.ID)
	node := store.Node{ID: last.ID, InstanceID: last.InstanceID, Name: last.Name, Role: last.Role}
	return node, tx.Instances().Put(instance.ID, instance)
}

// stricter is what applies to two records of one server, if it is unknown which is
// the later one: a revocation, by hand above all; else the certificate issued last.
func stricter(a, b *store.Identity) *store.Identity {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	case !b.Live():
		if a.Live() || b.RevokedByHand && !a.RevokedByHand {
			return b
		}
		return a
	case a.Live() && b.NotAfter.After(a.NotAfter):
		return b
	}
	return a
}

// rank orders the states of a permit by how much of it was used.
var rank = map[api.PermitState]int{
	api.PermitGranted: 1, api.PermitStarted: 2,
	api.PermitFormatted: 3, api.PermitInterrupted: 3, api.PermitAdopted: 3,
}

// carryVolumes takes over each permit that was used further than the backup knows,
// and with it the filesystem that was adopted. One that was given is void in another
// epoch.
func (b *epochChange) carryVolumes(tx, old *store.Tx) error {
	volumes, err := old.Volumes().All()
	if err != nil {
		return err
	}
	for _, last := range volumes {
		v, found, err := tx.Volumes().Get(last.ID)
		if err != nil {
			return err
		}
		if !found {
			v = store.Volume{ID: last.ID, FilesystemUUID: last.FilesystemUUID}
		}
		used := rank[last.Permit.State] > rank[v.Permit.State]
		if found && !used {
			continue
		}
		if used {
			b.out.Carried.Permits++
			v.Permit, v.FilesystemUUID, v.ReformatRequested, v.ChangedAt = last.Permit, last.FilesystemUUID, false, last.ChangedAt
		}
		if err := tx.Volumes().Put(v.ID, v); err != nil {
			return err
		}
	}
	return nil
}

// carryTokens copies each revocation of a token, even of one that is not in the backup: a
// later restore may be of a backup with it.
func (b *epochChange) carryTokens(tx, old *store.Tx) error {
	tokens, err := old.Tokens().All()
	if err != nil {
		return err
	}
	for _, last := range tokens {
		if last.RevokedAt == nil {
			continue
		}
		t, found, err := tx.Tokens().Get(last.ID)
		if err != nil {
			return err
		}
		if found && t.RevokedAt == nil {
			b.out.Carried.Tokens++
		}
		if err := tx.Tokens().Put(last.ID, last); err != nil {
			return err
		}
	}
	return nil
}
