package pki

import (
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/durable"
)

const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
	pemRequest     = "CERTIFICATE REQUEST"

	rootFile           = "root.pem"
	serverFile         = "server.pem"
	intermediatePrefix = "intermediate-"
)

// pair is a certificate, its key (nil when it is not here) and its issuer (nil for
// the root). Key and certificate share a file, so that no crash can part them.
type pair struct {
	cert   *x509.Certificate
	issuer *x509.Certificate
	key    crypto.Signer
}

func (p *pair) tls() *tls.Certificate {
	return &tls.Certificate{
		Certificate: [][]byte{p.cert.Raw, p.issuer.Raw},
		PrivateKey:  p.key,
		Leaf:        p.cert,
	}
}

func (p *pair) write(path string) error {
	var content []byte
	if p.key != nil {
		der, err := x509.MarshalPKCS8PrivateKey(p.key)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		content = pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der})
	}
	for _, cert := range []*x509.Certificate{p.cert, p.issuer} {
		if cert != nil {
			content = append(content, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw})...)
		}
	}
	return durable.Write(path, content, 0o600)
}

// readPair returns an error that is fs.ErrNotExist when there is no such file.
func readPair(path string) (*pair, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %#o, so others can read it: chmod 0600 it", path, mode)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := parsePair(content)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): restore it from a backup", path, err)
	}
	return p, nil
}

func parsePair(content []byte) (*pair, error) {
	p := &pair{}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case pemPrivateKey:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			signer, ok := key.(crypto.Signer)
			if !ok {
				return nil, errors.New("its key cannot sign")
			}
			p.key = signer
		case pemCertificate:
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, err
			}
			if p.cert == nil {
				p.cert = cert
			} else {
				p.issuer = cert
			}
		}
	}
	if p.cert == nil {
		return nil, errors.New("it holds no certificate")
	}
	if p.key != nil && !publicKeysEqual(p.key.Public(), p.cert.PublicKey) {
		return nil, errors.New("its key is not its certificate's")
	}
	return p, nil
}

func publicKeysEqual(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

// HasRoot reports whether the directory of an authority holds a root.
func HasRoot(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, rootFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// requireRoot refuses before anything is made: an operator puts the directory back
// as a whole.
func requireRoot(dir string) error {
	found, err := HasRoot(dir)
	if err == nil && !found {
		err = fmt.Errorf("%s is missing, and the state has instances, whose agents trust no other root: put %s back from your copy (docs/backup.md); nothing has been changed",
			filepath.Join(dir, rootFile), dir)
	}
	return err
}

func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the certificate authority: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("reading the directory of the certificate authority: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("the directory of the certificate authority, %s, has mode %#o, so others can replace what is in it: chmod 0700 it", dir, mode)
	}
	return nil
}

// load reads what there is. Which intermediates exist is which files exist.
func (a *Authority) load() error {
	var err error
	if a.root, err = optional(readPair(filepath.Join(a.dir, rootFile))); err != nil {
		return err
	}
	if a.server, err = optional(readPair(filepath.Join(a.dir, serverFile))); err != nil {
		return err
	}
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), intermediatePrefix) || filepath.Ext(entry.Name()) != ".pem" {
			continue
		}
		p, err := readPair(filepath.Join(a.dir, entry.Name()))
		if err != nil {
			return err
		}
		a.intermediates = append(a.intermediates, p)
	}
	slices.SortFunc(a.intermediates, func(x, y *pair) int {
		return cmp.Or(x.cert.NotBefore.Compare(y.cert.NotBefore), x.cert.NotAfter.Compare(y.cert.NotAfter))
	})
	return a.checkLoaded()
}

// checkLoaded refuses a directory whose parts do not belong together: a new root
// would lock out every agent that pins the old one.
func (a *Authority) checkLoaded() error {
	if a.root == nil {
		if len(a.intermediates) > 0 || a.server != nil {
			return fmt.Errorf("%s is missing and certificates under it exist: restore it; every agent pins it, so it cannot be replaced", rootFile)
		}
		return nil
	}
	for _, p := range a.intermediates {
		if err := p.cert.CheckSignatureFrom(a.root.cert); err != nil {
			return fmt.Errorf("%s was not signed by %s: restore the directory as a whole: %w", intermediateFile(p.cert), rootFile, err)
		}
	}
	return nil
}

func optional(p *pair, err error) (*pair, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

func intermediateFile(cert *x509.Certificate) string {
	return intermediatePrefix + serialText(cert.SerialNumber) + ".pem"
}
