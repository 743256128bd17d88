package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/store"
)

// beforeMigration is what a controller does before it changes the schema.
func (w *world) beforeMigration() string {
	w.t.Helper()
	pieces := 0
	path, err := w.Backups.BeforeMigration(context.Background(), func() { pieces++ })
	w.must(err)
	if pieces == 0 {
		w.t.Error("no progress was told")
	}
	return filepath.Base(path)
}

// upgrades are the files in the data directory that belong to upgrades.
func (w *world) upgrades() (names []string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.Config.DataDirectory)
	w.must(err)
	for _, e := range entries {
		if strings.Contains(e.Name(), "upgrade") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestTheBackupOfAnUpgradeIsAnOrdinaryOne(t *testing.T) {
	w := newWorld(t)
	w.expect(servers...)
	partial := filepath.Join(w.Config.DataDirectory, "upgrade.partial")
	w.must(os.WriteFile(partial, []byte("of one that was killed"), 0o600))
	name := w.beforeMigration()
	if want := fmt.Sprintf("upgrade-%d-20260102T030405Z.tar", store.Schema()); name != want || !slices.Equal(w.upgrades(), []string{want}) {
		t.Errorf("it is %s of %v; expected %s alone", name, w.upgrades(), want)
	}
	path := filepath.Join(w.Config.DataDirectory, name)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	w.must(w.Store.Update(func(tx *store.Tx) error { return tx.Nodes().Delete(servers[0]) }))
	w.restore(path, true)
	w.must(w.Store.View(func(tx *store.Tx) error {
		_, found, err := tx.Nodes().Get(servers[0])
		if !found {
			t.Error("the restored state lacks the node")
		}
		return err
	}))
}

// The one that was just made stays even if the clock has gone back.
func TestTwoBackupsOfUpgradesAreKept(t *testing.T) {
	w := newWorld(t)
	other := filepath.Join(w.Config.DataDirectory, "upgrade-notes.tar")
	w.must(os.WriteFile(other, nil, 0o600))
	var made []string
	for _, later := range []time.Duration{0, time.Hour, time.Hour, -48 * time.Hour} {
		w.Clock.Advance(later)
		made = append(made, w.beforeMigration())
		want := append(slices.Clone(made[max(0, len(made)-2):]), "upgrade-notes.tar")
		slices.Sort(want)
		if got := w.upgrades(); !slices.Equal(got, want) {
			t.Errorf("there are %v, want %v", got, want)
		}
	}
}

func TestARefusalOfANewerStoreNamesTheWayBack(t *testing.T) {
	w := newWorld(t)
	directory, newer := w.Config.DataDirectory, store.Schema()+1
	of := func(schema int, day string) string {
		return fmt.Sprintf("upgrade-%d-202601%sT000000Z.tar", schema, day)
	}
	for _, name := range []string{of(newer-1, "01"), of(newer-1, "02"), of(newer, "03")} {
		w.must(os.WriteFile(filepath.Join(directory, name), nil, 0o600))
	}
	for name, c := range map[string]struct {
		directory string
		err       error
		names     bool
	}{
		"with the backup":      {directory, fmt.Errorf("opening: %w", &store.SchemaError{Found: newer}), true},
		"without the backup":   {t.TempDir(), fmt.Errorf("opening: %w", &store.SchemaError{Found: newer}), false},
		"another error":        {directory, errors.New("the disk failed"), false},
		"of before all others": {directory, &store.SchemaError{Found: 0}, false},
	} {
		got := backup.ExplainNewer(c.directory, c.err)
		if !errors.Is(got, c.err) {
			t.Errorf("%s: %v has lost its cause", name, got)
		}
		command := "`nodehitch-controller restore --replace " + filepath.Join(directory, of(newer-1, "02")) + "`"
		if strings.Contains(got.Error(), command) != c.names || !c.names && strings.Contains(got.Error(), "upgrade-") {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}
