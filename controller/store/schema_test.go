package store

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// newer is the store's schema and one more version, in which nodes have no name.
func newer(step migration) []migration {
	return append(append([]migration{}, migrations...), step)
}

func dropNames(w writer) error {
	return rewrite(bucketNodes, func(_ string, text []byte) ([]byte, error) {
		return bytes.ReplaceAll(text, []byte(`"name":"storage_server"`), []byte(`"name":""`)), nil
	})(w)
}

// withNode is a store of the present schema that holds one node.
func withNode(t *testing.T) place {
	t.Helper()
	p := newPlace(t)
	s := p.open(t)
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n1", Node{ID: "n1", Name: "storage_server"}) })
	shut(t, s)
	return p
}

func nodeName(t *testing.T, s *Store) string {
	t.Helper()
	var name string
	err := s.View(func(tx *Tx) error {
		node, _, err := tx.Nodes().Get("n1")
		name = node.Name
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAnOlderStoreIsMigratedOnce(t *testing.T) {
	p := withNode(t)
	s := p.open(t)
	before := s.Epoch()
	shut(t, s)

	runs := 0
	steps := newer(func(w writer) error { runs++; return dropNames(w) })
	options := p.options()
	options.Now = time.Now // the epoch is not made anew
	for range 2 {
		s, err := open(options, steps)
		if err != nil {
			t.Fatal(err)
		}
		if name := nodeName(t, s); name != "" {
			t.Errorf("the node is still called %q", name)
		}
		if s.Epoch() != before {
			t.Errorf("a migration changed the epoch from %d to %d", before, s.Epoch())
		}
		shut(t, s)
	}
	if runs != 1 {
		t.Errorf("the migration ran %d times", runs)
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	p := withNode(t)
	_, err := open(p.options(), newer(func(w writer) error {
		return errors.Join(dropNames(w), errors.New("disk on fire"))
	}))
	present := len(migrations)
	wantError(t, err, fmt.Sprintf("from schema version %d to %d", present, present+1), "nothing has been changed", "disk on fire")
	if name := nodeName(t, p.open(t)); name != "storage_server" {
		t.Errorf("the node is called %q", name)
	}
}

func TestANewerStoreIsRefusedUnchanged(t *testing.T) {
	p := withNode(t)
	s, err := open(p.options(), newer(dropNames))
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	before := read(t, p.file())
	_, err = Open(p.options())
	wantError(t, err, p.file(), fmt.Sprintf("version %d", len(migrations)+1), fmt.Sprintf("up to %d", len(migrations)), "run the newer controller")
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
