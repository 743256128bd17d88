package store

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func lastBackup(t *testing.T, s *Store) (taken time.Time, found bool) {
	t.Helper()
	err := s.View(func(tx *Tx) error {
		b, there, err := tx.LastBackup()
		taken, found = b.TakenAt, there
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return taken, found
}

func TestTheLastBackupIsTheLatest(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	if taken, found := lastBackup(t, s); found {
		t.Errorf("a new store has a backup of %v", taken)
	}
	first, second := origin.TakenAt.Add(time.Hour), origin.TakenAt.Add(2*time.Hour)
	for _, at := range []time.Time{second, first} { // the slower client had begun before
		if err := s.Update(func(tx *Tx) error { return tx.PutLastBackup(LastBackup{TakenAt: at}) }); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
	s = p.open(t)
	if taken, _ := lastBackup(t, s); !taken.Equal(second) {
		t.Errorf("after a restart the last backup is of %v", taken)
	}
	if err := s.View(func(tx *Tx) error { return tx.PutLastBackup(LastBackup{}) }); !errors.Is(err, errReadOnly) {
		t.Errorf("a View writes: %v", err)
	}
}

// What a backup holds does not tell of itself: its restore does.
func TestARestoredBackupIsTheLast(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	before := origin.TakenAt.Add(-time.Hour)
	if err := s.Update(func(tx *Tx) error { return tx.PutLastBackup(LastBackup{TakenAt: before}) }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BeginEpoch(NewEpoch{From: origin}); err != nil {
		t.Fatal(err)
	}
	if taken, _ := lastBackup(t, s); !taken.Equal(origin.TakenAt) {
		t.Errorf("the last backup is of %v, want that of the restored one", taken)
	}
}

func TestADamagedLastBackupIsNotBelieved(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	if err := s.Update(func(tx *Tx) error { return tx.PutLastBackup(LastBackup{TakenAt: origin.TakenAt}) }); err != nil {
		t.Fatal(err)
	}
	err := raw(s).Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucketMeta))
		value := append([]byte{}, b.Get([]byte(metaBackup))...)
		value[20] ^= 1
		return b.Put([]byte(metaBackup), value)
	})
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	if s, err := Open(p.options()); err == nil {
		shut(t, s)
		t.Error("it was opened")
	}
}

// A store that has shrunk has free pages; its file does not shrink.
func TestSpace(t *testing.T) {
	s := newPlace(t).open(t)
	space := func() (used, free int64) {
		t.Helper()
		err := s.View(func(tx *Tx) (err error) { used, free, err = tx.Space(); return err })
		if err != nil {
			t.Fatal(err)
		}
		return used, free
	}
	put := func(bytes int) {
		t.Helper()
		if err := s.Update(func(tx *Tx) error { return tx.Nodes().Put("n1", Node{ID: "n1", Config: make(Sealed, bytes)}) }); err != nil {
			t.Fatal(err)
		}
	}
	put(2 << 20)
	used, free := space()
	if used < 2<<20 || free < 0 {
		t.Errorf("with 2 MiB: %d used, %d free", used, free)
	}
	put(1)
	put(2) // the pages of before are free after the next commit
	left, freed := space()
	if left > used-2<<20 || freed < 2<<20 || left+freed < used+free {
		t.Errorf("without them: %d used, %d free; before %d and %d", left, freed, used, free)
	}
}

// Only what the disk does not take has failed: an error of the caller's is not the store's.
func TestTransactionsThatFailAreObserved(t *testing.T) {
	p := newPlace(t)
	var failed, all int
	o := p.options()
	o.Observe = func(write bool, _ time.Duration, fault bool) {
		if write {
			all++
		}
		if fault {
			failed++
		}
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	put := func(err error) error {
		return s.Update(func(tx *Tx) error {
			return errors.Join(tx.Nodes().Put("n1", Node{ID: "n1", Generation: int64(all)}), err)
		})
	}
	if err := errors.Join(put(nil), s.View(func(*Tx) error { return errors.New("of a reader") })); err == nil || put(errors.New("the caller's")) == nil || failed != 0 || all != 2 {
		t.Errorf("%d of %d have failed", failed, all)
	}
	shut(t, s) // a closed database takes nothing
	if err := put(nil); err == nil || failed != 1 || all != 3 {
		t.Errorf("%v; %d of %d have failed", err, failed, all)
	}
}
