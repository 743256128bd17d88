// Package enroll gives the machine its identity: a key that never leaves it, and a
// client certificate that it requests once with the join token and then renews with the
// key.
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

// The files. A key is on disk before its certificate is requested, so that after a lost
// answer the certificate can be requested again with the same key.
const (
	CurrentFile = "identity.pem"      // key and certificates in use
	nextFile    = "identity-next.pem" // renewed, not yet used in a successful call
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

// NotAfter is when the certificate expires.
func (c *Credentials) NotAfter() time.Time { return c.TLS.Leaf.NotAfter }

// Serial is the certificate's serial number, in lower-case hexadecimal.
func (c *Credentials) Serial() string { return c.TLS.Leaf.SerialNumber.Text(16) }

// RenewAt is when two thirds of the certificate's lifetime are over. The certificate is
// backdated for clocks that are behind, which makes the renewal earlier, never later.
func (c *Credentials) RenewAt() time.Time {
	leaf := c.TLS.Leaf
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// NodeID is the certificate's node, "" if it names none.
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

// Usable returns the credentials to start with: the current ones or, if they are missing
// or damaged, renewed ones, which then become the current ones. It returns nil if the
// machine has none and has to enroll; damaged then describes damaged files, if any. err
// is a file that cannot be read.
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

// Tidy removes the key file if it has the key that is in use, which a crash can leave.
func (f Files) Tidy() error {
	content, err := f.Directory.Read(keyFile)
	if err != nil {
		return nil //nolint:nilerr // there is none, or the next enrollment reports the error
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

// Current returns the credentials in use, nil if there are none. The error is
// *state.Damaged if the file is incomplete.
func (f Files) Current() (*Credentials, error) { return f.read(CurrentFile) }

// Next returns renewed credentials that have not been used successfully, nil if there
// are none. Errors are those of Current.
func (f Files) Next() (*Credentials, error) { return f.read(nextFile) }

// Adopt makes the next credentials the current ones.
func (f Files) Adopt() error {
	if err := f.Directory.Rename(nextFile, CurrentFile); err != nil {
		return err
	}
	_ = f.Tidy() // if it fails, the next start repeats it
	return nil
}

// Drop removes the next credentials.
func (f Files) Drop() error { return f.Directory.Remove(nextFile) }

// DropKey removes the key that has no certificate yet.
func (f Files) DropKey() error { return f.Directory.Remove(keyFile) }

// DropKeys removes every key that an enrollment would use, because another machine made
// them.
func (f Files) DropKeys() error {
	if _, err := f.Current(); isDamaged(err) {
		if err := f.Directory.Remove(CurrentFile); err != nil {
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

// parse parses a key and its certificates. The whole text has to be PEM: in a truncated
// file the last certificate is missing.
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
	// The controller has its own intermediates and accepts none from a peer.
	pair.Certificate = pair.Certificate[:1]
	return &pair, nil
}

// key returns the key for a certificate request: the one without a certificate, or a new
// one. (After a crash the key file may have the key in use, which is not used twice.) If
// the certificate in use is damaged but its key is not, it returns that key, so that the
// controller recognises the machine without an operator.
func (f Files) key() (crypto.Signer, error) {
	if content, err := f.Directory.Read(CurrentFile); err == nil {
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
	return nil // the agent makes no other kind, and the controller may not accept it
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// save writes key and chain to the named file and removes the key file. It refuses a
// certificate that is not for the key.
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
	_ = f.DropKey() // see key: a key in use is not used again
	return &Credentials{TLS: &pair}, nil
}

// certificates returns only the certificates of a PEM text.
func certificates(text []byte) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certificateBlock {
			_ = pem.Encode(&out, &pem.Block{Type: certificateBlock, Bytes: block.Bytes}) // writing to a Buffer does not fail
		}
	}
	return out.Bytes()
}
