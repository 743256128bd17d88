package store

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// KeySize is the length of the key in bytes; the file has exactly these, raw.
const KeySize = 32

// KeySource says where the key that unseals the store comes from: exactly one of
// File and Credential.
type KeySource struct {
	// File is a key file, 0600.
	File string
	// Create makes the key file when neither it nor a store sealed with it exists.
	Create bool
	// Credential is the path of a systemd credential
	// ($CREDENTIALS_DIRECTORY/<name>, systemd.exec(5)).
	Credential string
}

// String names the source for a sentence.
func (k KeySource) String() string {
	if k.Credential != "" {
		return "the credential " + k.Credential
	}
	return "the key file " + k.File
}

// load reads the key. A key may be created only for a store that has none yet.
func (k KeySource) load(newStore bool) ([]byte, error) {
	if (k.File == "") == (k.Credential == "") {
		return nil, errors.New("the key that unseals the store is not configured: name one key file or one credential")
	}
	path, forbidden := k.File, fs.FileMode(0o077)
	if k.Credential != "" {
		// systemd gives a service without root its credential by an ACL, whose
		// mask shows as group permissions.
		path, forbidden = k.Credential, 0o007
	}
	secret, err := readKey(path, forbidden, k.String())
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return secret, err
	case k.Credential != "":
		return nil, fmt.Errorf("%s is missing: set LoadCredential= or LoadCredentialEncrypted= in the unit: %w", k, err)
	case !newStore:
		return nil, fmt.Errorf("%s is missing and the store is sealed with it: put it back from the copy that is kept apart from the backups: %w", k, err)
	case !k.Create:
		return nil, fmt.Errorf("%s is missing and may not be created: make it with `head -c %d /dev/urandom`, mode 0600: %w", k, KeySize, err)
	}
	return createKey(path)
}

// derive reads the key as load does and derives the keys from it.
func (k KeySource) derive(newStore bool) (*keys, error) {
	secret, err := k.load(newStore)
	if err != nil {
		return nil, err
	}
	return deriveKeys(secret)
}

// unlock derives the store's keys once, and refuses those of another store. Only a new store may
// have its key made.
func (s *Store) unlock(source KeySource, isNew bool, keyID string) (err error) {
	if s.keys == nil {
		if s.keys, err = source.derive(isNew); err != nil {
			return err
		}
	}
	if !isNew && keyID != s.keys.id {
		return fmt.Errorf("it was sealed with the key %s and %s holds the key %s: "+
			"put the right key there; nothing has been changed", keyID, source, s.keys.id)
	}
	return nil
}

// Derive is a key of KeySize bytes for one purpose, which needs no open store. It is the same
// for all controllers with the same seal key, and says nothing about that or about another
// purpose's. The seal key must exist.
func (k KeySource) Derive(purpose string) ([]byte, error) {
	keys, err := k.derive(false)
	if err != nil {
		return nil, err
	}
	return keys.derive("for "+purpose, KeySize), nil
}

func readKey(path string, forbidden fs.FileMode, name string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return nil, fmt.Errorf("%s has mode %#o, so others can read it: chmod 0600 it", name, mode)
	}
	if info.Size() != KeySize {
		return nil, fmt.Errorf("%s holds %d bytes, expected exactly %d", name, info.Size(), KeySize)
	}
	secret := make([]byte, KeySize)
	if _, err := io.ReadFull(f, secret); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if bytes.Equal(secret, make([]byte, KeySize)) {
		return nil, fmt.Errorf("%s holds only zeros, which is no key", name)
	}
	return secret, nil
}

// createKey has the key safely on disk before anything is sealed with it.
func createKey(path string) ([]byte, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the key file: %w", err)
	}
	secret := make([]byte, KeySize)
	rand.Read(secret)
	if err := durable.Write(path, secret, 0o600); err != nil {
		return nil, fmt.Errorf("making the key file: %w", err)
	}
	return secret, nil
}

// keys are derived from the one secret (HKDF-SHA256, RFC 5869), one for each use,
// so that no use can tell anything about another.
type keys struct {
	prk []byte
	id  string
}

func deriveKeys(secret []byte) (*keys, error) {
	prk, err := hkdf.Extract(sha256.New, secret, []byte("nodehitch store v1"))
	if err != nil {
		return nil, err
	}
	k := &keys{prk: prk}
	k.id = hex.EncodeToString(k.derive("key id", 6))
	return k, nil
}

func (k *keys) derive(use string, size int) []byte {
	b, err := hkdf.Expand(sha256.New, k.prk, use, size)
	if err != nil {
		panic("store: deriving a key: " + err.Error()) // only for sizes beyond 255 hashes
	}
	return b
}
