// Package certificate decides which certificate a browser gets: one that the operator has brought,
// for the names that only browsers use. Agents trust the controller's own authority alone.
package certificate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// Options is where the certificate is. All are required.
type Options struct {
	// Names are the DNS names by which browsers ask for it.
	Names []string
	// File is the certificate and its intermediates in PEM, Key is its private key.
	File, Key string
	Now       func() time.Time
	Log       *slog.Logger
}

// Certificate is the certificate, as it is in the files now. Its methods may be called at the same
// time.
type Certificate struct {
	o Options

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]state // of the files when they were read last
}

// state is what shows that a file is another one.
type state struct {
	changed time.Time
	size    int64
}

// Open reads the certificate. It fails if the files are not those of a certificate for the names, or
// if others can read the key.
func Open(o Options) (*Certificate, error) {
	c := &Certificate{o: o}
	var err error
	if c.read, err = c.states(); err == nil {
		c.current, err = c.load()
	}
	return c, err
}

// For is the certificate for a client that asks for one of the names, nil for any other.
func (c *Certificate) For(hello *tls.ClientHelloInfo) *tls.Certificate {
	if !slices.ContainsFunc(c.o.Names, func(name string) bool { return strings.EqualFold(name, hello.ServerName) }) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readAgain()
	return c.current
}

// readAgain takes another certificate once the files have one. What is not valid, such as a
// certificate whose key has not been written yet, changes nothing.
func (c *Certificate) readAgain() {
	now, err := c.states()
	if err == nil && now == c.read {
		return
	}
	if err == nil {
		var fresh *tls.Certificate
		if fresh, err = c.load(); err == nil {
			c.current = fresh
			c.o.Log.Info("browsers get another certificate", "file", c.o.File, "notAfter", fresh.Leaf.NotAfter)
		}
	}
	if err != nil && now != c.read {
		c.o.Log.Error("the certificate for browsers cannot be read again; they get the one of before", "error", err)
	}
	c.read = now
}

func (c *Certificate) states() (states [2]state, err error) {
	for i, path := range []string{c.o.File, c.o.Key} {
		info, statErr := os.Stat(path)
		if statErr != nil {
			err = errors.Join(err, fmt.Errorf("the certificate for browsers (uiCertificate): %w", statErr))
			continue
		}
		states[i] = state{info.ModTime(), info.Size()}
		if mode := info.Mode().Perm(); path == c.o.Key && mode&0o007 != 0 {
			err = errors.Join(err, fmt.Errorf("the key of the certificate for browsers, %s, has mode %#o, so everybody can read it: chmod 0640 it, with the controller's group", path, mode))
		}
	}
	return states, err
}

func (c *Certificate) load() (*tls.Certificate, error) {
	pair, err := pemtext.LoadKeyPair(c.o.File, c.o.Key)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the certificate for browsers (uiCertificate): %w; let the controller's group read it", err)
	case err != nil:
		return nil, fmt.Errorf("the certificate for browsers (uiCertificate), %s with the key %s: %w; expected PEM, the certificate first and then its intermediates, and the key of that certificate", c.o.File, c.o.Key, err)
	}
	for _, name := range c.o.Names {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			return nil, fmt.Errorf("the certificate for browsers, %s, is not for a name in uiCertificate.names: %w", c.o.File, err)
		}
	}
	if !c.o.Now().Before(pair.Leaf.NotAfter) {
		c.o.Log.Warn("the certificate for browsers has expired", "file", c.o.File, "notAfter", pair.Leaf.NotAfter)
	}
	return &pair, nil
}
