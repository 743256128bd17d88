// Package pki is the controller's own certificate authority: a root that outlives
// every stack because user_data pins it, an intermediate and the listener's
// certificate that rotate under it, and the short-lived client certificates of
// nodes. It says who a certificate is for; whether that node is still welcome is
// the business of controller/trust/enrollment.
package pki

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
)

// How long certificates last, and when they are replaced.
const (
	rootLife         = 20 * year
	intermediateLife = 2 * year
	serverLife       = 90 * day

	// NodeLife is the life of a node's certificate, which never outlives its issuer.
	NodeLife = day
	// RenewalGrace is how long after its end a node's certificate may still do one
	// thing: be renewed by proof of its key.
	RenewalGrace = 30 * day

	// backdate allows for clocks that are behind the controller's.
	backdate = time.Hour

	day  = 24 * time.Hour
	year = 365 * day
)

// Options says where the authority lives and what the listener is called.
type Options struct {
	// Dir has one file for each certificate with its key, and nothing else. It
	// is made (0700) when it is missing.
	Dir string
	// Store has the root and the intermediates if controllers share it; Dir then has only
	// the server certificate, which is this controller's own. Nil: Dir has all.
	Store *store.Store
	// ReadOnly: another controller makes, rotates and deletes what is in Store. This one fails
	// to load before it is there.
	ReadOnly bool
	// Names are the DNS names and IP addresses by which agents and users reach the
	// listener; the server certificate carries exactly these.
	Names []string
	// RootExists says that agents pin the root already: without it Load fails instead
	// of making another.
	RootExists bool
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Log, slog.Default() when nil.
	Log *slog.Logger
}

// Authority signs and verifies. It is safe for concurrent use.
type Authority struct {
	own      directory // has the server certificate
	kept     storage   // has the others
	place    string    // that of kept, for errors
	readOnly bool
	names    []string
	now      func() time.Time
	log      *slog.Logger

	rotation  sync.Mutex   // one rotation or reload at a time
	clockSaid atomic.Int64 // when checkClock has logged last, by the process's own clock
	mu        sync.RWMutex
	pairs     // the root never changes
	server    *pair
	// What VerifyNode trusts: the certificates above, made into pools once.
	rootPool, intermediatePool *x509.CertPool
	// verified is what has been verified with these pools.
	verified *verified
}

// Load reads the authority, makes what is missing and rotates what is due. It refuses files
// that others can read, and never replaces a root.
func Load(o Options) (*Authority, error) {
	if o.Store != nil {
		return load(o, records{o.Store}, inRecords)
	}
	return load(o, directory(o.Dir), o.Dir)
}

func load(o Options, kept storage, place string) (*Authority, error) {
	a := &Authority{own: directory(o.Dir), kept: kept, place: place, readOnly: o.ReadOnly, names: o.Names, now: o.Now, log: o.Log}
	if a.now == nil {
		a.now = time.Now
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if err := checkNames(a.names); err != nil {
		return nil, err
	}
	if o.RootExists {
		if err := a.kept.requireRoot(); err != nil {
			return nil, err
		}
	}
	if err := prepareDir(o.Dir); err != nil {
		return nil, err
	}
	if err := a.read(); err != nil {
		return nil, fmt.Errorf("loading the certificate authority from %s: %w", a.place, err)
	}
	if err := a.Rotate(); err != nil {
		return nil, fmt.Errorf("starting the certificate authority in %s: %w", a.place, err)
	}
	return a, nil
}

func (a *Authority) read() (err error) {
	if a.server, err = optional(readPair(a.own.path(serverFile))); err != nil {
		return err
	}
	if a.pairs, err = a.kept.read(); err != nil {
		return err
	}
	if a.root == nil && a.server != nil {
		return errRootMissing
	}
	if !a.readOnly {
		return nil
	}
	if a.root == nil || len(a.intermediates) == 0 {
		return errors.New("it is not complete yet: the controller that is the leader makes it at its first start")
	}
	a.set(func() {})
	return nil
}

// Reload takes over what another controller has changed in Store: to be called when the
// records of the authority have changed, before anything that was written later is answered
// from. If it fails, the present certificates stay in use.
func (a *Authority) Reload() error {
	a.rotation.Lock()
	defer a.rotation.Unlock()
	found, err := a.kept.read()
	switch {
	case err != nil:
	case !a.sameRoot(found):
		err = errors.New("the root is not the one with which this controller was started: start it again")
	case len(found.intermediates) == 0:
		err = errors.New("there is no intermediate")
	}
	if err != nil {
		return fmt.Errorf("loading the certificate authority again from %s: %w", a.place, err)
	}
	a.set(func() { a.intermediates = found.intermediates })
	return a.ensureServer(a.now())
}

// RootPEM is the root certificate.
func (a *Authority) RootPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: a.root.cert.Raw}))
}

// Pin names the root in user_data: "sha256:" and the lower-case hexadecimal
// SHA-256 of its DER.
func (a *Authority) Pin() string {
	sum := sha256.Sum256(a.root.cert.Raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ServerCertificate is what the listener presents now: the leaf and its
// intermediate. Clients have the root.
func (a *Authority) ServerCertificate() *tls.Certificate {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.server.tls()
}

// TLSConfig is the listener's.
//
// A client certificate is requested but not verified here, because an expired one may
// still renew: TLS proves the possession of its key, and VerifyNode does the rest on each
// request. Session tickets are off: a resumed session would reuse the client's certificate
// from the session before, which may have expired or been revoked since, and would keep a
// server certificate in use after its rotation.
//
// The request names the issuers of nodes' certificates, so that a browser, which has none of them,
// does not ask its user for another one. They are names only: that of an intermediate is the same
// after its rotation.
func (a *Authority) TLSConfig() *tls.Config {
	issuers := x509.NewCertPool()
	a.mu.RLock()
	issuers.AddCert(a.root.cert)
	issuers.AddCert(a.issuer().cert)
	a.mu.RUnlock()
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequestClientCert,
		ClientCAs:              issuers,
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return a.ServerCertificate(), nil
		},
	}
}

// Expiry tells when the certificates that serve now end, for metrics and /readyz.
func (a *Authority) Expiry() (root, intermediate, server time.Time) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.root.cert.NotAfter, a.issuer().cert.NotAfter, a.server.cert.NotAfter
}

// Run rotates what is due until ctx is done. A failure is logged and tried again;
// the present certificates stay in use.
func (a *Authority) Run(ctx context.Context) {
	// A timer for the due date would sleep through a suspend of the machine.
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := a.Rotate(); err != nil {
				a.log.Error("the certificates cannot be rotated; the present ones stay in use", "error", err)
			}
		}
	}
}
