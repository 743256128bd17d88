// Package enroll gives the machine its identity towards the controller: a key that
// never leaves it, and a client certificate that is asked for with the join token
// once and renewed by proof of the key from then on.
package enroll

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
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The files. A key is on disk before a certificate for it is asked for, so that
// the certificate of a lost answer can be asked for again with the same key.
const (
	currentFile = "identity.pem"      // key and certificates in use
	nextFile    = "identity-next.pem" // renewed, and not used for a good call yet
	keyFile     = "key-next.pem"      // a key that has no certificate yet
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

// NodeID is the node that the certificate is of, "" where it does not say.
func (c *Credentials) NodeID() string {
	for _, uri := range c.TLS.Leaf.URIs {
		if id, ok := strings.CutPrefix(uri.String(), api.NodeURN); ok {
			return id
		}
	}
	return ""
}

// Files are the credentials on disk.
type Files struct{ Directory *state.Directory }

// Usable are the credentials to begin with: those in use, else, where they are gone
// or damaged, renewed ones that were not used yet, which become the current ones.
// Nil where the machine has none, so that it has to enroll; damaged then says what
// there was instead, if anything. err is a file that cannot be read at all.
func (f Files) Usable() (c *Credentials, damaged, err error) {
	c, err = f.Current()
	if c != nil || err != nil && !isDamaged(err) {
		return c, nil, err
	}
	damaged = err
	next, err := f.Next()
	switch {
	case isDamaged(err):
		return nil, errors.Join(damaged, err), nil
	case err != nil || next == nil:
		return nil, damaged, err
	}
	return next, damaged, f.Adopt()
}

// Tidy forgets the key file where it holds the key that is in use: a crash may have
// come before that.
func (f Files) Tidy() error {
	content, err := f.Directory.Read(keyFile)
	if err != nil {
		return nil //nolint:nilerr // there is none, or the next enrollment says so
	}
	if key := parseKey(content); key == nil || !f.inUse(key) {
		return nil
	}
	return f.DropKey()
}

func isDamaged(err error) bool {
	var d *state.Damaged
	return errors.As(err, &d)
}

// Current are the credentials in use, nil where the machine has none; *state.Damaged
// where the file is not whole.
func (f Files) Current() (*Credentials, error) { return f.read(currentFile) }

// Next are renewed credentials that have not been used for a good call, nil where
// there are none; errors as of Current.
func (f Files) Next() (*Credentials, error) { return f.read(nextFile) }

// Adopt makes the next credentials the current ones.
func (f Files) Adopt() error {
	if err := f.Directory.Rename(nextFile, currentFile); err != nil {
		return err
	}
	_ = f.Tidy() // else the next start does it
	return nil
}

// Drop forgets the next credentials.
func (f Files) Drop() error { return f.Directory.Remove(nextFile) }

// DropKey forgets the key that has no certificate yet.
func (f Files) DropKey() error { return f.Directory.Remove(keyFile) }

// DropKeys forgets every key that a certificate would be asked for with: the machine
// that made them is another one.
func (f Files) DropKeys() error {
	if _, err := f.Current(); isDamaged(err) {
		if err := f.Directory.Remove(currentFile); err != nil {
			return err
		}
	}
	return f.DropKey()
}

func (f Files) read(name string) (*Credentials, error) {
	content, err := f.Directory.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := parse(content)
	if err != nil {
		return nil, &state.Damaged{Path: f.Directory.Path(name), Err: err}
	}
	return &Credentials{TLS: pair}, nil
}

// parse reads a key and its certificates. All of the text has to be understood: PEM
// that is cut off hides the certificate that it ends with.
func parse(content []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return nil, err
	}
	rest := content
	for block, after := pem.Decode(rest); block != nil; block, after = pem.Decode(rest) {
		rest = after
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%d bytes at its end are no PEM", len(rest))
	}
	// The controller has its intermediates, and takes none from a peer.
	pair.Certificate = pair.Certificate[:1]
	return &pair, nil
}

// key is the key to ask for a certificate with. It is the one that has none yet,
// made where there is none. (The key of the certificate in use is found there after
// a crash at the wrong moment; it is not used twice.) Where the certificate in use
// is damaged and its key is not, it is that key: by it the controller knows that
// this is the machine that enrolled, and no operator has to say so.
func (f Files) key() (crypto.Signer, error) {
	if content, err := f.Directory.Read(currentFile); err == nil {
		if _, err := parse(content); err != nil {
			if key := parseKey(content); key != nil {
				return key, nil
			}
		}
	}
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
	if ec, ok := key.(*ecdsa.PrivateKey); ok && ec.Curve == elliptic.P256() {
		return ec
	}
	return nil // the agent makes no other, and the controller may not take it
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
	_ = f.DropKey() // a key that is in use is not used again, see key
	return &Credentials{TLS: &pair}, nil
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
