package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// signer makes the records of a shared database such as only a controller with the seal key
// can make them: a client that may write the database need not have the key.
//
// Each value has a MAC of its bucket, its key and itself behind it, by which a record that
// somebody else has written shows. A record that was removed, or put back as it once was,
// shows by the head, which every commit writes: it has the number of the commit and a MAC of
// that and of the sum of all records. The sum is the XOR of one secret element for each
// record: a commit changes only those of its records, and nobody else can know which elements
// cancel each other out.
type signer struct {
	keyID                 string
	record, element, mark []byte
}

const macSize = sha256.Size

type sum [sha256.Size]byte

func (k *keys) signer() *signer {
	return &signer{keyID: k.id, record: k.derive("shared record", 32), element: k.derive("shared element", 32), mark: k.derive("shared head", 32)}
}

func macOf(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// textOfSigned is the value without its MAC.
func textOfSigned(value []byte) []byte {
	end := len(value) - macSize
	return value[:end:end]
}

// toggle adds the record to the sum, or takes it away.
func (s *signer) toggle(all *sum, value []byte) {
	subtle.XORBytes(all[:], all[:], macOf(s.element, value[len(value)-macSize:]))
}

// sign returns the records after the writes, and what that changes in the database.
func (s *signer) sign(before *records, writes writeSet) (after *records, changes map[string][]byte) {
	tree, changes := before.tree.Txn(), map[string][]byte{}
	after = &records{sum: before.sum, sequence: before.sequence + 1}
	put := func(key, value []byte) {
		value = append(value[:len(value):len(value)], macOf(s.record, key, value)...)
		if old, found := tree.Insert(key, value); found {
			s.toggle(&after.sum, old)
		}
		s.toggle(&after.sum, value)
		changes[string(key)] = value
	}
	for bucket, keys := range writes {
		if !before.has(bucket) {
			put(pathOf(bucket, ""), nil)
		}
		for key, value := range keys {
			if value != nil {
				put(pathOf(bucket, key), value)
			} else if old, found := tree.Delete(pathOf(bucket, key)); found {
				s.toggle(&after.sum, old)
				changes[bucket+"/"+key] = nil
			}
		}
	}
	after.tree = tree.Commit()
	return after, changes
}

// head is what a commit says of all records. Only its MAC keeps it from being changed.
type head struct {
	// KeyID names the seal key.
	KeyID string `json:"keyId"`
	// Epoch is that of the state, Sequence the number of the commit.
	Epoch    int64 `json:"epoch"`
	Sequence int64 `json:"sequence"`
	// Unfinished is set while the records are replaced in several commits.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
	MAC        []byte      `json:"mac"`
}

// parseHead reads a head without checking its MAC; the zero head stands for none.
func parseHead(text []byte) (h head, err error) {
	if text == nil {
		return h, nil
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("its head is not one of nodehitch: %w", err)
	}
	return h, nil
}

func (s *signer) head(r *records) []byte { return s.headSaying(r, nil) }

func (s *signer) headSaying(r *records, by *Unfinished) []byte {
	h := head{KeyID: s.keyID, Epoch: r.epoch(), Sequence: r.sequence, Unfinished: by}
	h.MAC = s.macOfHead(h, r.sum)
	text, err := json.Marshal(h)
	if err != nil {
		panic("store: " + err.Error()) // numbers and strings
	}
	return text
}

func (s *signer) macOfHead(h head, all sum) []byte {
	parts := [][]byte{fmt.Appendf(nil, "%s %d %d", h.KeyID, h.Epoch, h.Sequence), all[:]}
	if u := h.Unfinished; u != nil {
		parts = append(parts, []byte(u.By), []byte(u.Aside))
	}
	return macOf(s.mark, parts...)
}

// epoch is 0 before the state has one.
func (r *records) epoch() int64 {
	if !r.has(bucketMeta) {
		return 0
	}
	if value := r.get(bucketMeta, metaEpoch); len(value) == 8 {
		return int64(binary.BigEndian.Uint64(value))
	}
	return 0
}

var errMAC = errors.New("its MAC does not match: a program without the seal key has written it")

// verify checks what was loaded against the head, and completes it.
func (s *signer) verify(r *records, h head) error {
	all := r.tree.Root().Iterator()
	for key, value, more := all.Next(); more; key, value, more = all.Next() {
		if err := s.genuine(key, value); err != nil {
			return err
		}
		s.toggle(&r.sum, value)
	}
	r.sequence = h.Sequence
	return s.complete(r, h)
}

// genuine refuses a record that no controller has written.
func (s *signer) genuine(key, value []byte) error {
	if len(value) < macSize || !hmac.Equal(value[len(value)-macSize:], macOf(s.record, key, textOfSigned(value))) {
		bucket, name := splitPath(string(key))
		return &CorruptError{Bucket: bucket, Key: name, Err: errMAC}
	}
	return nil
}

// complete refuses records that are not those of the head.
func (s *signer) complete(r *records, h head) error {
	if h.Epoch != r.epoch() || !hmac.Equal(h.MAC, s.macOfHead(h, r.sum)) {
		return errors.New("its records are not those that its last commit has left: a program without the seal key has removed some, or put old ones back: restore a backup")
	}
	return nil
}

// follow returns the records after a commit of another controller, whose head and changes are
// those of Term.Commit.
func (s *signer) follow(before *records, h head, changes map[string][]byte) (after *records, err error) {
	if h.Sequence != before.sequence+1 {
		return nil, fmt.Errorf("commit %d comes after commit %d: what is between is missing, or a program without the seal key has changed its head", h.Sequence, before.sequence)
	}
	tree := before.tree.Txn()
	after = &records{sum: before.sum, sequence: h.Sequence}
	for key, value := range changes {
		var old []byte
		var found bool
		if value == nil {
			old, found = tree.Delete([]byte(key))
		} else {
			if err := s.genuine([]byte(key), value); err != nil {
				return nil, err
			}
			old, found = tree.Insert([]byte(key), value)
			s.toggle(&after.sum, value)
		}
		if found {
			s.toggle(&after.sum, old)
		}
	}
	after.tree = tree.Commit()
	return after, s.complete(after, h)
}
