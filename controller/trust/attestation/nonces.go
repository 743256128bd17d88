package attestation

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// nonceBytes are 128 bits, too many to guess in ten minutes.
	nonceBytes = 16
	// nonceLife bounds the use of a nonce that another machine read.
	nonceLife = 10 * time.Minute
	// writeAgain is how soon a written nonce is written once more for a machine that
	// asks: a stack update may have taken it out of the metadata.
	writeAgain = time.Minute
	// writeEvery is how soon a write that failed is tried again.
	writeEvery = 5 * time.Second
	// mostNonces bounds the memory that they take. Only servers that a topology
	// expects have one.
	mostNonces = 10_000
)

var errFull = errors.New("too many servers have a nonce at this time")

// nonces has one nonce for each server that is asked for one, in memory only: after a
// restart of the controller there is another. All machines that claim a server at the same
// time are asked for the same nonce, so that none invalidates another one's.
type nonces struct {
	now func() time.Time

	mu      sync.Mutex
	servers map[string]*nonce
}

// nonce is that of one server. nonces.mu guards its fields.
type nonce struct {
	// turn is locked while the item is written or deleted.
	turn    chan struct{}
	value   string
	expires time.Time
	written time.Time // zero: not yet
	triedAt time.Time
	failure error // of the last try
}

// matches reports whether this is the server's nonce, in force.
func (s *nonces) matches(serverID, given string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.servers[serverID]
	return n != nil && n.value != "" && s.now().Before(n.expires) &&
		subtle.ConstantTimeCompare([]byte(n.value), []byte(given)) == 1
}

// ask makes the server's metadata show a nonce. It calls write with the nonce when that is
// due, once at a time for each server. The error is that of write, now or moments ago;
// errFull; or that of ctx. It is nil for a nonce that is shown already, even if it could
// not be written once more.
func (s *nonces) ask(ctx context.Context, serverID string, write func(value string) error) error {
	n, err := s.take(ctx, serverID)
	if err != nil {
		return err
	}
	defer func() { <-n.turn }()
	if value, due := s.due(n); due {
		s.tried(n, write(value))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !n.written.IsZero() {
		return nil
	}
	return n.failure
}

// take is the place for the server's nonce, with its turn.
func (s *nonces) take(ctx context.Context, serverID string) (*nonce, error) {
	for {
		n, err := s.of(serverID)
		if err != nil {
			return nil, err
		}
		select {
		case n.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if s.inUse(serverID, n) {
			return n, nil
		}
		<-n.turn // it was cleared meanwhile
	}
}

func (s *nonces) inUse(serverID string, n *nonce) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[serverID] == n
}

// of is the server's nonce, or the place for one.
func (s *nonces) of(serverID string) (*nonce, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.servers[serverID]; n != nil {
		return n, nil
	}
	if len(s.servers) >= mostNonces {
		maps.DeleteFunc(s.servers, func(_ string, n *nonce) bool { return len(n.turn) == 0 && s.now().After(n.expires) })
	}
	if len(s.servers) >= mostNonces {
		return nil, errFull
	}
	n := &nonce{turn: make(chan struct{}, 1)}
	s.servers[serverID] = n
	return n, nil
}

// due is the nonce in force, made anew where its life is over, and whether it is time
// to write it. The caller has the turn.
func (s *nonces) due(n *nonce) (value string, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if n.value == "" || !now.Before(n.expires) {
		random := make([]byte, nonceBytes)
		rand.Read(random)
		n.value, n.expires, n.written = hex.EncodeToString(random), now.Add(nonceLife), time.Time{}
	}
	wait := time.Duration(0)
	switch {
	case n.failure != nil:
		wait = writeEvery
	case !n.written.IsZero():
		wait = writeAgain
	}
	return n.value, now.Sub(n.triedAt) >= wait
}

func (s *nonces) tried(n *nonce, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.triedAt, n.failure = s.now(), failure
	if failure == nil {
		n.written = n.triedAt
	}
}

// spend ends the server's nonce; nil if none was written.
func (s *nonces) spend(serverID string) *nonce {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.servers[serverID]
	if n == nil || n.written.IsZero() {
		return nil
	}
	n.value, n.written, n.failure = "", time.Time{}, nil
	return n
}

// clear calls remove, unless the server was asked for another nonce meanwhile, which
// waits for remove if it comes later.
func (s *nonces) clear(ctx context.Context, serverID string, spent *nonce, remove func() error) error {
	select {
	case spent.turn <- struct{}{}:
		defer func() { <-spent.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !s.unused(spent) {
		return nil
	}
	err := remove()
	s.mu.Lock()
	defer s.mu.Unlock()
	if spent.value == "" && s.servers[serverID] == spent {
		delete(s.servers, serverID)
	}
	return err
}

func (s *nonces) unused(n *nonce) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.value == ""
}
