package store

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

var origin = Origin{TakenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Epoch: 7, RestoredAt: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)}

func TestANewEpochRemembersItsOrigin(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	first := s.Epoch()
	if s.Origin() != nil {
		t.Errorf("a new store was %s", s.Origin())
	}
	epoch, err := s.BeginEpoch(NewEpoch{From: origin, After: first + 1000})
	if err != nil || epoch <= first+1000 || s.Epoch() != epoch {
		t.Fatalf("epoch %d after %d, %v", epoch, first, err)
	}
	shut(t, s)
	s = p.open(t)
	if got := s.Origin(); got == nil || !got.TakenAt.Equal(origin.TakenAt) || got.Epoch != origin.Epoch || s.Epoch() != epoch {
		t.Errorf("after a restart the epoch is %d and it was %s", s.Epoch(), got)
	}
}

func TestANewEpochThatFailsIsNone(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	first := s.Epoch()
	_, err := s.BeginEpoch(NewEpoch{From: origin, Change: func(tx *Tx, _ int64) error {
		return errors.Join(tx.Nodes().Put("n1", Node{ID: "n1"}), errors.New("no"))
	}})
	if err == nil || s.Epoch() != first || s.Origin() != nil {
		t.Errorf("error %v, epoch %d after %d, %s", err, s.Epoch(), first, s.Origin())
	}
	shut(t, s)
	if s = p.open(t); s.Epoch() != first || s.Origin() != nil {
		t.Errorf("on disk are the epoch %d and the origin %s", s.Epoch(), s.Origin())
	}
}

func TestADamagedOriginIsNotBelieved(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	if _, err := s.BeginEpoch(NewEpoch{From: origin}); err != nil {
		t.Fatal(err)
	}
	err := raw(s).Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucketMeta))
		value := append([]byte{}, b.Get([]byte(metaOrigin))...)
		value[20] ^= 1
		return b.Put([]byte(metaOrigin), value)
	})
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	_, err = Open(p.options())
	wantError(t, err, "meta/origin", "damaged")
}

func TestHold(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	_, err := Lock(p.file())
	wantError(t, err, "held by another process", "stop it first")
	shut(t, s)
	release, err := Lock(p.file())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(p.options())
	wantError(t, err, "held by another process")
	if err := release(); err != nil {
		t.Fatal(err)
	}
	shut(t, p.open(t))
}
