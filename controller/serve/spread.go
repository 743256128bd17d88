package serve

import (
	"log/slog"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
)

const (
	// comeBack is how many agents a second may come back after the controller was
	// away. Each costs it about a millisecond: two handshakes' worth of signatures,
	// and the checks of its certificate.
	comeBack = 200
	// countEvery is how old the number of nodes may be.
	countEvery = 10 * time.Second
)

// spread knows over how long the agents have to come back, so that a restart under
// thousands of them is no herd. All nodes on record count, also those that are not
// there now.
type spread struct {
	store *store.Store
	// longest is the poll interval in seconds: every agent calls at least that often.
	longest int
	now     func() time.Time
	log     *slog.Logger

	mu      sync.Mutex
	counted time.Time
	nodes   int
}

// seconds is at least one.
func (s *spread) seconds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.counted) >= countEvery {
		err := s.store.View(func(tx *store.Tx) (err error) {
			s.nodes, err = tx.Nodes().Len()
			return err
		})
		if err != nil {
			s.log.Error("the nodes cannot be counted", "error", err)
		}
		s.counted = now
	}
	return max(1, min((s.nodes+comeBack-1)/comeBack, s.longest))
}
