package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"
)

// maxVerified bounds the memory of verified. More certificates than that only cost the
// time to verify them again.
const maxVerified = 1 << 16

// verified remembers when the chain of a node's certificate is good: a node presents the
// same certificate with each of its requests, and signatures do not change. The zero
// value is ready for use.
type verified struct {
	mu   sync.Mutex
	good map[[sha256.Size]byte]window
}

// window is the time in which every certificate of a chain is valid, both ends included.
type window struct{ from, until time.Time }

func windowOf(chain []*x509.Certificate) window {
	w := window{chain[0].NotBefore, chain[0].NotAfter}
	for _, c := range chain[1:] {
		if c.NotBefore.After(w.from) {
			w.from = c.NotBefore
		}
		if c.NotAfter.Before(w.until) {
			w.until = c.NotAfter
		}
	}
	return w
}

// at reports whether the certificate's chain was verified and is good at this time.
func (v *verified) at(leaf *x509.Certificate, at time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	w, known := v.good[sha256.Sum256(leaf.Raw)]
	return known && !at.Before(w.from) && !at.After(w.until)
}

func (v *verified) add(leaf *x509.Certificate, w window) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.good == nil || len(v.good) >= maxVerified {
		v.good = make(map[[sha256.Size]byte]window)
	}
	v.good[sha256.Sum256(leaf.Raw)] = w
}
