package store

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/bbolt"
)

// withNode is a store of the present schema that holds one node.
func withNode(t *testing.T) place {
	t.Helper()
	p := newPlace(t)
	s := p.open(t)
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n1", Node{ID: "n1", Name: "storage_server"}) })
	shut(t, s)
	return p
}

func TestAStoreOfANewerSchemaIsRefusedUnchanged(t *testing.T) {
	p := withNode(t)
	refusedUnchanged(t, p, func(m meta, w writer) error {
		m.schema = Schema() + 1
		return m.put(w)
	}, func(err error) {
		var newer *SchemaError
		if !errors.As(err, &newer) || newer.Found <= Schema() {
			t.Errorf("%v is no *SchemaError of a newer schema", err)
		}
		wantError(t, err, p.file(), "its schema is version ", fmt.Sprintf("reads versions up to %d", Schema()), "run the controller that wrote it", "restore a backup")
	})
}

// The versions of builds before the first release went up to 3, and their checksum had
// another key.
func TestAStoreOfBeforeTheFirstReleaseIsRefusedUnchanged(t *testing.T) {
	for schema := 1; schema <= 3; schema++ {
		p := withNode(t)
		refusedUnchanged(t, p, func(m meta, w writer) error {
			m.schema = schema
			defer w.delete(bucketMeta, metaChecksum)
			return m.put(w)
		}, func(err error) { wantError(t, err, p.file(), metaChecksum, "restore a backup") })
	}
}

// refusedUnchanged opens a store whose metadata were changed.
func refusedUnchanged(t *testing.T, p place, change func(meta, writer) error, want func(error)) {
	t.Helper()
	s := p.open(t)
	must(t, s.updates.update(func(w writer) error { return change(*s.meta.Load(), w) }))
	shut(t, s)
	before := read(t, p.file())
	_, err := Open(p.options())
	want(err)
	if !bytes.Equal(before, read(t, p.file())) {
		t.Error("the refused store was changed")
	}
}

func TestOpeningWritesNothing(t *testing.T) {
	p := withNode(t)
	before := read(t, p.file())
	shut(t, p.open(t))
	if !bytes.Equal(before, read(t, p.file())) {
		t.Error("opening a store of the present schema changed it")
	}
}

// A controller that was killed at its very first start left an empty file.
func TestAnEmptyFileIsANewStore(t *testing.T) {
	p := newPlace(t)
	if err := preparePath(p.file()); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(p.file(), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	shut(t, db)
	if s := p.open(t); s.Epoch() == 0 {
		t.Error("it has no epoch")
	}
}
