package store

import (
	"errors"
	"testing"

	"go.etcd.io/bbolt"
)

// Every byte of every value, and of every key, counts: one that was changed behind
// bbolt's back is found at the next start, and by every reader.
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

func TestChangedMetadataAreFound(t *testing.T) {
	for name, change := range map[string]func(meta *bbolt.Bucket) error{
		"another epoch": func(meta *bbolt.Bucket) error { return meta.Put([]byte(metaEpoch), []byte{0, 0, 0, 0, 0, 0, 0, 1}) },
		"no checksum":   func(meta *bbolt.Bucket) error { return meta.Delete([]byte(metaChecksum)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := withNode(t)
			s := p.open(t)
			if err := raw(s).Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte(bucketMeta))) }); err != nil {
				t.Fatal(err)
			}
			shut(t, s)
			_, err := Open(p.options())
			wantError(t, err, "meta/checksum", "restore a backup")
		})
	}
}
