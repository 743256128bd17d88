package store

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
)

func TestNoSecretIsInTheFile(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	secret := []byte("correct horse battery staple")
	sealed, err := s.Seal(secret)
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx *Tx) error {
		return tx.Desired().Put(DesiredKey("i1", 1), Desired{InstanceID: "i1", Version: 1, AdditionalParams: sealed})
	})
	var backup bytes.Buffer
	if err := s.View(func(tx *Tx) error { return tx.Export(&backup) }); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	key := read(t, p.key())
	for name, content := range map[string][]byte{"file": read(t, p.file()), "backup": backup.Bytes()} {
		if !bytes.Contains(content, []byte(`"instanceId":"i1"`)) {
			t.Errorf("the %s does not hold the record at all", name)
		}
		for what, plain := range map[string][]byte{"secret": secret, "key": key} {
			for how, text := range encodings(plain) {
				if bytes.Contains(content, text) {
					t.Errorf("the %s holds the %s in the clear (%s)", name, what, how)
				}
			}
		}
	}
}

// encodings are what can be found of plain in a record: itself, and its inside in each
// alignment that it may have in base64, in which JSON has bytes.
func encodings(plain []byte) map[string][]byte {
	all := map[string][]byte{"raw": plain}
	for before := range 3 {
		inside := plain[(3-before)%3:] // what begins with a group of base64
		text := base64.StdEncoding.EncodeToString(inside[:len(inside)/3*3])
		all[fmt.Sprintf("base64 behind %d bytes", before)] = []byte(text)
	}
	return all
}

func TestUnsealRefusesWhatItDidNotSeal(t *testing.T) {
	s := newPlace(t).open(t)
	sealed, err := s.Seal([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := s.Unseal(changed); !errors.Is(err, ErrUnseal) {
			t.Errorf("byte %d changed: %v, want ErrUnseal", i, err)
		}
	}
	for _, short := range []Sealed{{1}, {1, 2, 3}, sealed[:len(sealed)-1]} {
		if _, err := s.Unseal(short); !errors.Is(err, ErrUnseal) {
			t.Errorf("%x: %v, want ErrUnseal", short, err)
		}
	}
	if plain, err := s.Unseal(nil); plain != nil || err != nil {
		t.Errorf("no secret unsealed to %q, %v", plain, err)
	}
	again, _ := s.Seal([]byte("secret"))
	if bytes.Equal(sealed, again) {
		t.Error("one secret sealed twice looks the same")
	}
}
