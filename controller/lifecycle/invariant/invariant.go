// Package invariant says what must be true of the controller's records between any
// two transactions, whatever happened before. It is for tests, which check wherever they
// stop the controller; the controller does not link it. It reads, and repairs nothing.
package invariant

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
)

// Blob is the size of a blob in bytes, an error if there is none.
type Blob func(sha256 string) (size int64, err error)

// Check returns a sentence for everything that contradicts something else; none is
// how it should be. blob may be nil, which leaves the content of files out. Its
// error is of reading the store.
func Check(s *store.Store, blob Blob) (broken []string, err error) {
	r := &records{store: s, blob: blob}
	if err := s.View(r.read); err != nil {
		return nil, err
	}
	for _, id := range r.instanceIDs {
		r.instance(r.instances[id])
	}
	r.belonging()
	for _, n := range r.nodes {
		r.node(n)
	}
	for _, v := range r.volumes {
		r.volume(v)
	}
	for _, f := range r.files {
		r.file(f)
	}
	for _, t := range r.tokens {
		mac := 32
		if t.RevokedAt != nil {
			mac = 0
		}
		r.want(t.ID != "" && len(t.MAC) == mac && t.Scope.Valid(), "the token %q is not whole", t.ID)
	}
	return r.broken, nil
}

// records is everything, as one transaction saw it.
type records struct {
	store *store.Store
	blob  Blob

	instanceIDs []string
	instances   map[string]store.Instance
	desired     map[string]store.Desired // by key, as the two below
	operations  map[string]store.Operation
	nodes       map[string]store.Node
	volumes     []store.Volume
	files       []store.File
	tokens      []store.Token

	broken []string
}

func (r *records) read(tx *store.Tx) error {
	r.instances, r.nodes = map[string]store.Instance{}, map[string]store.Node{}
	r.desired, r.operations = map[string]store.Desired{}, map[string]store.Operation{}
	instances, err := tx.Instances().All()
	for _, i := range instances {
		r.instanceIDs, r.instances[i.ID] = append(r.instanceIDs, i.ID), i
	}
	if err != nil {
		return err
	}
	desired, err := tx.Desired().All()
	for _, d := range desired {
		r.desired[store.DesiredKey(d.InstanceID, d.Version)] = d
	}
	if err != nil {
		return err
	}
	operations, err := tx.Operations().All()
	for _, o := range operations {
		r.operations[store.OperationKey(o.VnfInstanceID, o.Sequence)] = o
	}
	if err != nil {
		return err
	}
	nodes, err := tx.Nodes().All()
	for _, n := range nodes {
		r.nodes[n.ID] = n
	}
	if err != nil {
		return err
	}
	if r.volumes, err = tx.Volumes().All(); err != nil {
		return err
	}
	if r.files, err = tx.Files().All(); err != nil {
		return err
	}
	if r.tokens, err = tx.Tokens().All(); err != nil {
		return err
	}
	return r.keys(tx)
}

// keys wants each record under its own key.
func (r *records) keys(tx *store.Tx) error {
	for _, id := range r.instanceIDs {
		if _, found, err := tx.Instances().Get(id); err != nil || !found {
			r.want(found, "the instance %s is under another key", id)
			return err
		}
	}
	for id := range r.nodes {
		if _, found, err := tx.Nodes().Get(id); err != nil || !found {
			r.want(found, "the node %s is under another key", id)
			return err
		}
	}
	for _, v := range r.volumes {
		if _, found, err := tx.Volumes().Get(v.ID); err != nil || !found {
			r.want(found, "the volume %s is under another key", v.ID)
			return err
		}
	}
	return nil
}

func (r *records) want(ok bool, format string, args ...any) {
	if !ok {
		r.broken = append(r.broken, fmt.Sprintf(format, args...))
	}
}

// belonging wants an instance for everything that is part of one.
func (r *records) belonging() {
	for key, d := range r.desired {
		_, ok := r.instances[d.InstanceID]
		r.want(ok, "the desired state %s is of no instance", key)
	}
	for key, o := range r.operations {
		_, ok := r.instances[o.VnfInstanceID]
		r.want(ok, "the operation %s is of no instance", key)
	}
}

func (r *records) unseals(what string, sealed store.Sealed) []byte {
	plain, err := r.store.Unseal(sealed)
	r.want(err == nil, "%s: %v", what, err)
	return plain
}

func has(ids []string, id string) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}
