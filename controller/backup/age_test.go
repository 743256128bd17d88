package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
)

// lastBackup is the moment of the last complete backup, zero for none.
func (w *world) lastBackup() time.Time {
	w.t.Helper()
	var last store.LastBackup
	w.must(w.Store.View(func(tx *store.Tx) (err error) { last, _, err = tx.LastBackup(); return err }))
	return last.TakenAt
}

// full takes so many bytes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errors.New("the client is gone")
	}
	return len(b), nil
}

// Only what a client got to its end counts, and it is as old as the state in it.
func TestWhenTheLastBackupWasTaken(t *testing.T) {
	w := newWorld(t)
	w.expect(servers...)
	deliver := func(to io.Writer) error {
		t.Helper()
		c, err := w.Backups.Take(context.Background())
		w.must(err)
		w.Clock.Advance(time.Hour) // the client is slow
		return errors.Join(c.Deliver(context.Background(), to), c.Close())
	}
	if deliver(&full{1000}) == nil || !w.lastBackup().IsZero() {
		t.Errorf("a backup that was cut off counts: %v", w.lastBackup())
	}
	w.beforeMigration() // on the controller's own disk
	if last := w.lastBackup(); !last.IsZero() {
		t.Errorf("the backup before a migration counts: %v", last)
	}
	taken := w.Clock.Now()
	var first bytes.Buffer
	w.must(deliver(&first))
	if last := w.lastBackup(); !last.Equal(taken) {
		t.Errorf("it is of %v, want %v", last, taken)
	}
	w.Open() // killed
	if last := w.lastBackup(); !last.Equal(taken) {
		t.Errorf("after a restart it is of %v, want %v", last, taken)
	}
	w.must(deliver(io.Discard))
	file := filepath.Join(t.TempDir(), "first.tar")
	w.must(os.WriteFile(file, first.Bytes(), 0o600))
	w.restore(file, false)
	if last := w.lastBackup(); !last.Equal(taken) {
		t.Errorf("after its restore it is of %v, want %v", last, taken)
	}
}
