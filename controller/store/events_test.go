package store

import (
	"errors"
	"testing"

	"go.etcd.io/bbolt"
)

// A store of schema 1, before there were events.
func TestAStoreWithoutEventsOpens(t *testing.T) {
	p := withNode(t)
	s := p.open(t)
	m, err := s.readMeta()
	if err == nil {
		m.schema = 1
		err = s.engine.update(func(w writer) error { return m.put(w) })
	}
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	db, err := bbolt.Open(p.file(), 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketEvents)) }), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	o, asked := p.options(), 0
	o.BeforeMigration = func(*Store) error { asked++; return nil }
	if s, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	if s.Schema() != Schema() || asked != 1 || s.nodeName(t) != "storage_server" {
		t.Errorf("it has schema %d, was backed up %d times, and its node is %q", s.Schema(), asked, s.nodeName(t))
	}
	update(t, s, func(tx *Tx) error { return tx.Events().Put(EventsKey("i", 1), Events{By: "me"}) })
}
