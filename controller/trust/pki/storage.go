package pki

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
)

// The names of pairs.
const (
	rootFile           = "root.pem"
	serverFile         = "server.pem"
	intermediatePrefix = "intermediate-"
)

func intermediateFile(cert *x509.Certificate) string {
	return intermediatePrefix + serialText(cert.SerialNumber) + ".pem"
}

// storage keeps the root and the intermediates by name. It may be killed before and after
// each write: a root without intermediates, and intermediates with and without keys, are
// all valid.
type storage interface {
	// requireRoot fails if there is no root, before anything is made.
	requireRoot() error
	// read fails if the parts do not belong together.
	read() (pairs, error)
	// write makes the pair durable.
	write(name string, p *pair) error
	// remove of a pair that is not there is no error.
	remove(name string) error
}

// pairs are the root, nil for none, and the intermediates, the newest last; all but the last
// have no key any more.
type pairs struct {
	root          *pair
	intermediates []*pair
}

func (p *pairs) sort() {
	slices.SortFunc(p.intermediates, func(x, y *pair) int {
		return cmp.Or(x.cert.NotBefore.Compare(y.cert.NotBefore), x.cert.NotAfter.Compare(y.cert.NotAfter))
	})
}

// issuer is the newest intermediate.
func (p *pairs) issuer() *pair { return p.intermediates[len(p.intermediates)-1] }

// check refuses parts that do not belong together: a new root would lock out every agent
// that pins the old one. place is the file or store that they are in.
func (p *pairs) check(place string) error {
	if p.root == nil {
		if len(p.intermediates) > 0 {
			return errRootMissing
		}
		return nil
	}
	for _, i := range p.intermediates {
		if err := i.cert.CheckSignatureFrom(p.root.cert); err != nil {
			return fmt.Errorf("%s was not signed by %s: restore %s as a whole: %w", intermediateFile(i.cert), rootFile, place, err)
		}
	}
	return nil
}

var errRootMissing = fmt.Errorf("%s is missing and certificates under it exist: restore it; every agent pins it, so it cannot be replaced", rootFile)

// sameRoot reports whether the other pairs have this root; it may be nil there.
func (p *pairs) sameRoot(other pairs) bool {
	return other.root != nil && other.root.cert.Equal(p.root.cert)
}
