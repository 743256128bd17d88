package reconcile

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/mod/semver"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// clusterSecretBytes is as long as the keys that are derived from it.
const clusterSecretBytes = 32

// needClusterSecret makes the secret of the instance's cluster if the plan is the first that
// needs it.
func needClusterSecret(t *tx.Tx, d *desired.State) (err error) {
	if d.Params.ClusterMembers() == nil || d.Topology == nil || len(t.Instance.ClusterSecret) > 0 {
		return nil
	}
	secret := make([]byte, clusterSecretBytes)
	rand.Read(secret) // never fails
	t.Instance.ClusterSecret, err = t.Store.Seal(secret)
	return err
}

// clusterOf is what a plan reads of the instance's cluster. Before the first Apply there is no
// secret, and nothing that is planned without it is written.
func clusterOf(t *tx.Tx, d *desired.State) (c plan.Cluster, err error) {
	if d.Params.ClusterMembers() == nil {
		return c, nil
	}
	if c.Secret, err = t.Store.Unseal(t.Instance.ClusterSecret); err != nil {
		return c, fmt.Errorf("reading the cluster secret of instance %s: %w", t.Instance.ID, err)
	}
	facts, err := ClusterFacts(t)
	c.CACertificateHash = facts.CACertificateHash
	return c, err
}

// ClusterFacts is what is known of the instance's cluster. Treat it as a secret.
func ClusterFacts(t *tx.Tx) (facts api.ClusterFacts, err error) {
	text, err := t.Store.Unseal(t.Instance.ClusterFacts)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &facts)
	}
	if err != nil {
		return facts, fmt.Errorf("reading what is known of the cluster of instance %s: %w", t.Instance.ID, err)
	}
	return facts, nil
}

// learnCluster keeps what a node's report says of the cluster, and reports whether a plan reads
// what is new. It listens only to the master that speaks for the cluster and is a member.
func (r *Reconciler) learnCluster(t *tx.Tx, n store.Node, said *api.ClusterFacts) (replan bool, err error) {
	if said == nil || n.ID != t.Instance.CarriedOver.Owner || !n.Identity.Live() || n.Status.Epoch != t.Store.Epoch() {
		return false, nil
	}
	if !slices.Contains(t.Instance.CarriedOver.Members, n.ID) && !r.observe(t, n).Member {
		return false, nil
	}
	known, err := ClusterFacts(t)
	if err != nil {
		return false, err
	}
	next := merged(known, *said)
	if store.Same(known, next) {
		return false, nil
	}
	text, err := json.Marshal(next)
	if err == nil {
		t.Instance.ClusterFacts, err = t.Store.Seal(text)
	}
	return next.CACertificateHash != known.CACertificateHash, err
}

// merged is what is known after a report. A master that has just begun to speak does not have
// everything yet: what it leaves out stays, unless its cluster is another one.
func merged(known, said api.ClusterFacts) api.ClusterFacts {
	if said.CACertificateHash != "" && said.CACertificateHash != known.CACertificateHash {
		return said
	}
	known.CACertificateHash = cmp.Or(said.CACertificateHash, known.CACertificateHash)
	known.CACertificate = cmp.Or(said.CACertificate, known.CACertificate)
	if said.Token != "" {
		known.Token, known.TokenExpiresAt = said.Token, said.TokenExpiresAt
	}
	return known
}

// KubernetesVersions are the lowest and the highest version of Kubernetes that a server of the
// topology in force has been told, empty if none has.
func KubernetesVersions(t *tx.Tx) (lowest, highest string, err error) {
	nodes, err := t.InstanceNodes()
	for _, n := range nodes {
		v := n.KubernetesVersion
		if v == "" || !n.Expected || n.Identity == nil {
			continue
		}
		if lowest == "" || semver.Compare("v"+v, "v"+lowest) < 0 {
			lowest = v
		}
		if highest == "" || semver.Compare("v"+v, "v"+highest) > 0 {
			highest = v
		}
	}
	return lowest, highest, err
}
