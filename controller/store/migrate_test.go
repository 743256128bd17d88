package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// next makes this controller one of a later version, with these steps more.
func next(t *testing.T, steps ...func(writer) error) {
	t.Helper()
	before := migrations
	migrations = append(before[:len(before):len(before)], steps...)
	t.Cleanup(func() { migrations = before })
}

// renames is a step: it gives every node another name.
func renames(to string) func(writer) error {
	return func(w writer) error {
		texts := map[string][]byte{}
		for key, value := range w.scan(bucketNodes, "") {
			text, err := textOf(bucketNodes, key, value)
			if err != nil {
				return err
			}
			texts[key] = bytes.ReplaceAll(text, []byte("storage_server"), []byte(to))
		}
		for key, text := range texts {
			if err := w.put(bucketNodes, key, summed(bucketNodes, key, text)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *Store) nodeName(t *testing.T) (name string) {
	t.Helper()
	view(t, s, func(tx *Tx) error {
		n, _, err := tx.Nodes().Get("n1")
		name = n.Name
		return err
	})
	return name
}

func TestAnOlderStoreIsBroughtToTheSchemaOfTheController(t *testing.T) {
	p := withNode(t)
	old, options := Schema(), p.options()
	next(t, renames("first"), func(w writer) error {
		w.create("later")
		if err := w.put("later", "k", []byte("v")); err != nil {
			return err
		}
		for _, value := range w.scan(bucketNodes, "") {
			if !bytes.Contains(value, []byte("first")) {
				t.Errorf("the second step finds %q", value)
			}
		}
		return nil
	})
	asked := 0
	options.BeforeMigration = func(s *Store) error {
		asked++
		if name := s.nodeName(t); s.Schema() != old || name != "storage_server" || s.Epoch() == 0 || s.KeyID() == "" {
			t.Errorf("before the migration it has schema %d and the node %q, epoch %d, key %q", s.Schema(), name, s.Epoch(), s.KeyID())
		}
		return nil
	}
	for range 2 {
		s, err := Open(options)
		if err != nil {
			t.Fatal(err)
		}
		if s.Schema() != old+2 || s.nodeName(t) != "first" || everything(t, s)["later/k"] != "v" {
			t.Errorf("it has schema %d and %q", s.Schema(), everything(t, s))
		}
		shut(t, s)
	}
	if asked != 1 {
		t.Errorf("BeforeMigration was called %d times", asked)
	}
}

// Whatever fails, the older controller still reads the store.
func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	failed := errors.New("it failed")
	for name, c := range map[string]struct {
		before func(*Store) error
		second func(writer) error
		says   string
	}{
		"the backup before it": {func(*Store) error { return failed }, renames("second"), "it failed"},
		"a later step":         {nil, func(writer) error { return failed }, fmt.Sprintf("bringing its schema to version %d: from version %d: it failed", Schema()+2, Schema()+1)},
		"a step that leaves a record without its sum": {nil, func(w writer) error { return w.put(bucketTokens, "t1", []byte("{}")) }, "tokens/t1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := withNode(t)
			before := read(t, p.file())
			t.Run("by the newer controller", func(t *testing.T) {
				next(t, renames("first"), c.second)
				o := p.options()
				o.BeforeMigration = c.before
				_, err := Open(o)
				wantError(t, err, p.file(), c.says)
			})
			if !bytes.Equal(before, read(t, p.file())) {
				t.Error("the store was changed")
			}
			if name := p.open(t).nodeName(t); name != "storage_server" {
				t.Errorf("the older controller finds the node %q", name)
			}
		})
	}
}

// An older store may lack buckets that a step makes. No step, and no older store, may have
// a damaged record.
func TestADamagedOlderStoreIsRefused(t *testing.T) {
	p := withNode(t)
	b := read(t, p.file())
	damaged := bytes.ReplaceAll(b, []byte("storage_server"), []byte("storage_sarver"))
	if err := os.WriteFile(p.file(), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	next(t, renames("first"))
	o := p.options()
	o.BeforeMigration = func(*Store) error { t.Error("a damaged store was backed up"); return nil }
	_, err := Open(o)
	wantError(t, err, "nodes/n1", "checksum does not match", "restore a backup")
	if strings.Contains(err.Error(), "bringing") {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(damaged, read(t, p.file())) {
		t.Error("the refused store was changed")
	}
}
