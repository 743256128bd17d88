package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Observed is what is known of a node by what it has reported in this epoch.
type Observed struct {
	// Heard: it has an identity and was heard of within three cadences.
	Heard bool
	// Serves is the digest of the document for which it reports ExportsServed; empty
	// for none.
	Serves string
}

// Standing is what one plan decides and the next one keeps, so that a condition that
// comes and goes, or a master that does, changes no document.
type Standing struct {
	// Owner is the master that registers PersistentVolumes.
	Owner string
	// Served names the storage server and the section that it was seen to serve.
	Served string
	// Registered: a document has asked for PersistentVolumes to be registered.
	Registered bool
}

// owner chooses the master that speaks for the cluster: the one before while it is
// heard of, else the first that is, and the first of all while none is. The result is
// nil where there is no master.
func (o *Output) owner(in Input) *Node {
	var first, heard, before *Node
	for i := range o.Nodes { // ordered by id
		n := &o.Nodes[i]
		if n.Role != api.RoleMaster {
			continue
		}
		first = cmp.Or(first, n)
		if in.Nodes[n.ID].Heard {
			heard = cmp.Or(heard, n)
		}
		if n.ID == in.Standing.Owner {
			before = n
		}
	}
	if before != nil && (in.Nodes[before.ID].Heard || heard == nil) {
		return before
	}
	return cmp.Or(heard, first)
}

// storage is the storage server, nil for none.
func (o *Output) storage() *Node {
	for i := range o.Nodes {
		if o.Nodes[i].Role == api.RoleStorage {
			return &o.Nodes[i]
		}
	}
	return nil
}

// served names what a storage server is to serve. Of another epoch it is another
// thing: what was seen before a restore counts for nothing.
func (n *Node) served() string {
	section, err := json.Marshal(n.Config.Storage)
	if err != nil {
		panic("plan: a storage section always has a JSON form: " + err.Error())
	}
	sum := sha256.Sum256(section)
	return fmt.Sprintf("%d/%s/%s", n.Config.Epoch, n.ID, hex.EncodeToString(sum[:16]))
}
