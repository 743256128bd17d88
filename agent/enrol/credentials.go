// Package enrol gives the machine its identity towards the controller: a key that
// never leaves it, and a client certificate that is asked for with the join token
// once and renewed by proof of the key from then on.
package enrol

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
)

// The files. A key is on disk before a certificate for it is asked for, so that
// the certificate of a lost answer can be asked for again with the same key.
const (
	currentFile = "identity.pem"      // key and certificates in use
	nextFile    = "identity-next.pem" // renewed, and not used for a good call yet
	keyFile     = "key-new.pem"       // a key that has no certificate yet
)

const (
	keyBlock         = "PRIVATE KEY"
	certificateBlock = "CERTIFICATE"
)

// Credentials are a key and the certificates issued for it.
type Credentials struct {
	TLS *tls.Certificate
}

// NotAfter is the end of the certificate.
func (c *Credentials) NotAfter() time.Time { return c.TLS.Leaf.NotAfter }

// Serial is the certificate's serial number, in lower-case hexadecimal.
func (c *Credentials) Serial() string { return c.TLS.Leaf.SerialNumber.Text(16) }

// RenewAt is when two thirds of the certificate's life are over. The part before
// it was issued (it is backdated for clocks that are behind) counts, which makes
// the renewal earlier, never later.
func (c *Credentials) RenewAt() time.Time {
	leaf := c.TLS.Leaf
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// Files are the credentials on disk.
type Files struct{ Directory *state.Directory }

// Current are the credentials in use, nil where the machine has none.
func (f Files) Current() (*Credentials, error) { return f.read(currentFile) }

// Next are renewed credentials that have not been used for a good call, nil where
// there are none.
func (f Files) Next() (*Credentials, error) { return f.read(nextFile) }

// Adopt makes the next credentials the current ones.
func (f Files) Adopt() error { return f.Directory.Rename(nextFile, currentFile) }

// Drop forgets the next credentials.
func (f Files) Drop() error { return f.Directory.Remove(nextFile) }

// DropKey forgets the key that has no certificate yet.
func (f Files) DropKey() error { return f.Directory.Remove(keyFile) }

func (f Files) read(name string) (*Credentials, error) {
	content, err := f.Directory.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; if it is damaged, remove it and let the node enrol again (`hitchctl node reenrol`)", f.Directory.Path(name), err)
	}
	return &Credentials{TLS: &pair}, nil
}

// key is the key that has no certificate yet, made where there is none. (The key
// of the certificate in use is found there after a crash at the wrong moment; it
// is not used twice.)
func (f Files) key() (crypto.Signer, error) {
	content, err := f.Directory.Read(keyFile)
	if err == nil {
		if key := parseKey(content); key != nil && !f.inUse(key) {
			return key, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	content, err = encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, f.Directory.Write(keyFile, content)
}

func (f Files) inUse(key crypto.Signer) bool {
	current, err := f.Current()
	if err != nil || current == nil {
		return false
	}
	public, ok := current.TLS.Leaf.PublicKey.(*ecdsa.PublicKey)
	return ok && public.Equal(key.Public())
}

func parseKey(content []byte) crypto.Signer {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	signer, _ := key.(crypto.Signer)
	return signer
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// save writes key and chain to the named file and forgets the key file. It
// refuses a certificate that is not for the key.
func (f Files) save(name string, key crypto.Signer, chain string) (*Credentials, error) {
	content, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	content = append(content, certificates([]byte(chain))...)
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return nil, fmt.Errorf("the certificate that the controller issued: %w", err)
	}
	if err := f.Directory.Write(name, content); err != nil {
		return nil, err
	}
	return &Credentials{TLS: &pair}, f.DropKey()
}

// certificates are the certificates of a PEM text and nothing else of it.
func certificates(text []byte) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certificateBlock {
			_ = pem.Encode(&out, &pem.Block{Type: certificateBlock, Bytes: block.Bytes}) // a Buffer takes all
		}
	}
	return out.Bytes()
}
