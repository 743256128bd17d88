package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
)

// Sealed is a secret as it lies in the store: a format byte, then nonce,
// ciphertext and tag of AES-256-GCM. The empty Sealed stands for no secret.
//
// The format byte is the only additional data: a sealed value is not bound to the
// record that has it, because records pass theirs on (a new version of the
// desired state keeps the parameters of the last), and because an attacker who can move
// sealed values about in the file can as well write the topology beside them.
type Sealed []byte

const sealFormat = 1

// ErrUnseal means that a sealed value is damaged or was sealed with another key.
var ErrUnseal = errors.New("the sealed value is damaged, or was sealed with another key")

// Seal encrypts a secret for a record. Equal secrets seal differently each time.
func (s *Store) Seal(plain []byte) (Sealed, error) {
	gcm, err := s.keys.aead()
	if err != nil {
		return nil, err
	}
	format := []byte{sealFormat}
	return gcm.Seal(format, nil, plain, format), nil
}

// Unseal returns what was sealed, nil for an empty Sealed. Its error is ErrUnseal.
func (s *Store) Unseal(sealed Sealed) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	if sealed[0] != sealFormat {
		return nil, ErrUnseal
	}
	gcm, err := s.keys.aead()
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nil, sealed[1:], sealed[:1])
	if err != nil {
		return nil, ErrUnseal
	}
	return plain, nil
}

// MAC is HMAC-SHA256 of data under a key of its own for each purpose, derived
// from the store's key: 32 bytes that cannot be made without that key. Compare
// with crypto/hmac.Equal or crypto/subtle.
func (s *Store) MAC(purpose string, data []byte) []byte {
	h := hmac.New(sha256.New, s.keys.derive("mac "+purpose, sha256.Size))
	h.Write(data)
	return h.Sum(nil)
}

func (k *keys) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.derive("seal", 32))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
