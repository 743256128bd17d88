package store

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

func TestReopeningFindsEverything(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	sealed, err := s.Seal([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	want := Node{ID: "n1", InstanceID: "i1", Generation: 7, Config: sealed}
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n1", want) })
	mac := s.MAC("test", []byte("data"))
	shut(t, s)

	s = p.open(t)
	err = s.View(func(tx *Tx) error {
		got, found, err := tx.Nodes().Get("n1")
		if !found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		plain, err := s.Unseal(got.Config)
		if string(plain) != "s3cret" {
			t.Errorf("unsealed %q, %v", plain, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mac, s.MAC("test", []byte("data"))) {
		t.Error("a MAC of before is not the MAC of now")
	}
	if bytes.Equal(mac, s.MAC("other", []byte("data"))) {
		t.Error("two purposes share a MAC")
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	s := newPlace(t).open(t)
	boom := errors.New("boom")
	committed := false
	err := s.Update(func(tx *Tx) error {
		tx.OnCommit(func() { committed = true })
		if err := tx.Nodes().Put("n1", Node{ID: "n1"}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want the function's own", err)
	}
	if committed {
		t.Error("OnCommit ran after a rollback")
	}
	err = s.View(func(tx *Tx) error {
		if _, found, _ := tx.Nodes().Get("n1"); found {
			t.Error("a failed transaction left a record")
		}
		return tx.Nodes().Put("n1", Node{})
	})
	wantError(t, err, "nodes/n1")
}

func TestDamagedRecordNamesItsPlace(t *testing.T) {
	s := newPlace(t).open(t)
	err := raw(s).Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketVolumes)).Put([]byte("v1"), []byte(`{"id":`))
	})
	if err != nil {
		t.Fatal(err)
	}
	view(t, s, func(tx *Tx) error {
		_, _, err := tx.Volumes().Get("v1")
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Bucket != "volumes" || corrupt.Key != "v1" {
			t.Errorf("Get: %v, want a CorruptError of volumes/v1", err)
		}
		_, err = tx.Volumes().All()
		wantError(t, err, "volumes/v1", "restore a backup")
		return nil
	})
}

func TestANewEpochOutlivesRestarts(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	first := s.Epoch()
	second, err := s.BeginEpoch(NewEpoch{})
	if err != nil {
		t.Fatal(err)
	}
	if second <= first || s.Epoch() != second {
		t.Errorf("epochs %d then %d (now %d)", first, second, s.Epoch())
	}
	shut(t, s)
	if got := p.open(t).Epoch(); got != second {
		t.Errorf("epoch %d after a restart, want %d", got, second)
	}
}

func BenchmarkUpdate(b *testing.B) {
	p := place{dir: filepath.Join(b.TempDir(), "controller")}
	s, err := Open(p.options())
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, s)
	node := Node{ID: "n1", Config: bytes.Repeat([]byte{1}, 4096)}
	for b.Loop() {
		if err := s.Update(func(tx *Tx) error { return tx.Nodes().Put("n1", node) }); err != nil {
			b.Fatal(err)
		}
	}
}
