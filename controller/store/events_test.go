package store

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/bbolt"
)

// Schema 1 has no events, and schema 2 no certificate authority.
func TestAStoreWithoutLaterBucketsOpens(t *testing.T) {
	for schema, without := range map[int][]string{1: {bucketEvents, bucketAuthority}, 2: {bucketAuthority}} {
		t.Run(fmt.Sprint(schema), func(t *testing.T) { testOlderStore(t, schema, without) })
	}
}

func testOlderStore(t *testing.T, schema int, without []string) {
	p := withNode(t)
	s := p.open(t)
	m := *s.meta.Load()
	m.schema = schema
	must(t, s.updates.update(func(w writer) error { return m.put(w) }))
	shut(t, s)
	db, err := bbolt.Open(p.file(), 0o600, nil)
	if err == nil {
		for _, bucket := range without {
			err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucket)) }))
		}
		err = errors.Join(err, db.Close())
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
	update(t, s, func(tx *Tx) error {
		return errors.Join(tx.Events().Put(EventsKey("i", 1), Events{By: "me"}), tx.Authority().Put("root.pem", AuthorityPair{PEM: Sealed("x")}))
	})
}
