package serve

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
)

func TestTheSpreadGrowsWithTheFleetUpToTheCadence(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Path: filepath.Join(dir, "store.db"), Key: store.KeySource{File: filepath.Join(dir, "key"), Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it is a test's
	now := time.Now()
	spread := &spread{store: s, longest: 30, now: func() time.Time { return now }, log: slog.Default()}
	nodes := 0
	for _, test := range []struct{ nodes, seconds int }{{0, 1}, {200, 1}, {201, 2}, {2000, 10}, {10000, 30}} {
		err := s.Update(func(tx *store.Tx) error {
			for ; nodes < test.nodes; nodes++ {
				if err := tx.Nodes().Put(fmt.Sprint(nodes), store.Node{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(countEvery)
		if got := spread.seconds(); got != test.seconds {
			t.Errorf("%d nodes: %d s, want %d", test.nodes, got, test.seconds)
		}
	}
}
