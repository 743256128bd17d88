package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodehitch/nodehitch/shared/durable"
)

const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
	pemRequest     = "CERTIFICATE REQUEST"
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

// encode is the content of the pair's file.
func (p *pair) encode() ([]byte, error) {
	var content []byte
	if p.key != nil {
		der, err := x509.MarshalPKCS8PrivateKey(p.key)
		if err != nil {
			return nil, err
		}
		content = pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der})
	}
	for _, cert := range []*x509.Certificate{p.cert, p.issuer} {
		if cert != nil {
			content = append(content, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw})...)
		}
	}
	return content, nil
}

func (p *pair) write(path string) error {
	content, err := p.encode()
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
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

// HasRoot reports whether the directory of an authority has a root.
func HasRoot(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, rootFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// directory is the storage of a controller alone: one file for each pair.
type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) requireRoot() error {
	found, err := HasRoot(string(d))
	if err == nil && !found {
		err = fmt.Errorf("%s is missing, and the state has instances, whose agents trust no other root: put %s back from your copy (docs/backup.md); nothing has been changed",
			d.path(rootFile), string(d))
	}
	return err
}

// read returns what there is. Which intermediates exist is which files exist.
func (d directory) read() (found pairs, err error) {
	if found.root, err = optional(readPair(d.path(rootFile))); err != nil {
		return found, err
	}
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return found, err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), intermediatePrefix) || filepath.Ext(entry.Name()) != ".pem" {
			continue
		}
		p, err := readPair(d.path(entry.Name()))
		if err != nil {
			return found, err
		}
		found.intermediates = append(found.intermediates, p)
	}
	found.sort()
	return found, found.check("the directory")
}

func (d directory) write(name string, p *pair) error { return p.write(d.path(name)) }

func (d directory) remove(name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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

func optional(p *pair, err error) (*pair, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}
