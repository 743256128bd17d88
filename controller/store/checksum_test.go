package store

import (
	"errors"
	"testing"

	"go.etcd.io/bbolt"
)

// oldStore is a store of version 1, in which values had no checksum, with these nodes.
func oldStore(t *testing.T, nodes map[string]string) place {
	t.Helper()
	p := newPlace(t)
	s, err := open(p.options(), migrations[:1])
	if err != nil {
		t.Fatal(err)
	}
	err = raw(s).Update(func(tx *bbolt.Tx) error {
		for id, text := range nodes {
			if err := tx.Bucket([]byte(bucketNodes)).Put([]byte(id), []byte(text)); err != nil {
				return err
			}
		}
		// Version 1 had no sum over the meta bucket either.
		return tx.Bucket([]byte(bucketMeta)).Delete([]byte(metaSum))
	})
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	return p
}

func TestAStoreWithoutChecksumsGetsThem(t *testing.T) {
	p := oldStore(t, map[string]string{"n1": `{"id":"n1","name":"storage_server"}`})
	for range 2 {
		s := p.open(t)
		if name := nodeName(t, s); name != "storage_server" {
			t.Errorf("the node is called %q", name)
		}
		shut(t, s)
	}
}

func TestAnOldRecordThatIsNoJSONIsNotGivenAChecksum(t *testing.T) {
	p := oldStore(t, map[string]string{"n1": `{"id":"n1"}`, "n2": `{"id":`})
	_, err := Open(p.options())
	wantError(t, err, "nodes/n2", "damaged", "restore a backup")
}

// Every byte of every value, and of every key, counts: one that was changed behind
// bbolt's back is found at the next start, and by whoever reads it.
func TestAChangedByteOfARecordIsFound(t *testing.T) {
	p := withNode(t)
	s := p.open(t)
	var value []byte
	view(t, s, func(tx *Tx) error {
		value = append(value, tx.reader.get(bucketNodes, "n1")...)
		return nil
	})
	for i := range value {
		for bit := range 8 {
			value[i] ^= 1 << bit
			_, err := textOf(bucketNodes, "n1", value)
			wantError(t, err, "nodes/n1", "damaged")
			value[i] ^= 1 << bit
		}
	}
	// Under another key it is another record.
	if err := raw(s).Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucketNodes))
		return errors.Join(b.Delete([]byte("n1")), b.Put([]byte("n0"), value))
	}); err != nil {
		t.Fatal(err)
	}
	view(t, s, func(tx *Tx) error {
		_, _, err := tx.Nodes().Get("n0")
		wantError(t, err, "nodes/n0", "damaged")
		return nil
	})
	shut(t, s)
	_, err := Open(p.options())
	wantError(t, err, p.file(), "nodes/n0", "restore a backup")
}

func TestAChangedEpochIsFound(t *testing.T) {
	p := withNode(t)
	s := p.open(t)
	if err := raw(s).Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(metaEpoch), []byte{0, 0, 0, 0, 0, 0, 0, 1})
	}); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	_, err := Open(p.options())
	wantError(t, err, "meta/sum", "restore a backup")
}
