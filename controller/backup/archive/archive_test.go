package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func mac(sums []byte) []byte { sum := sha256.Sum256(append([]byte("key"), sums...)); return sum[:] }

// written is a backup with this database and these package files.
func written(t testing.TB, database string, blobs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Manifest{Format: Format, KeyID: "k", StoreBytes: int64(len(database)), PackageFiles: len(blobs), TakenAt: time.Unix(1_790_000_000, 0).UTC()})
	if err == nil {
		err = w.Store(int64(len(database)), strings.NewReader(database))
	}
	for _, blob := range blobs {
		if err == nil {
			err = w.Blob(digest(blob), int64(len(blob)), strings.NewReader(blob))
		}
	}
	if err == nil {
		err = w.Close(mac)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// read is what a backup contains, in one text.
func read(backup []byte) (text string, err error) {
	var b strings.Builder
	take := func(name string) func(int64, io.Reader) error {
		return func(_ int64, r io.Reader) error {
			_, err := io.Copy(&b, io.MultiReader(strings.NewReader("|"+name+":"), r))
			return err
		}
	}
	m, seal, err := Read(bytes.NewReader(backup), Taker{
		Manifest: func(Manifest) error { return nil },
		Store:    take("store"),
		Blob:     func(digest string, n int64, r io.Reader) error { return take(digest)(n, r) },
	})
	if err == nil && !bytes.Equal(seal.MAC, mac(seal.Sums)) {
		err = fmt.Errorf("the MAC is another")
	}
	return fmt.Sprintf("%+v", m) + b.String(), err
}

func TestABackupIsReadAsItWasWritten(t *testing.T) {
	for _, blobs := range [][]string{nil, {""}, {"one", strings.Repeat("two", 1000)}} {
		text, err := read(written(t, "database", blobs...))
		if err != nil || !strings.Contains(text, "|store:database") {
			t.Errorf("%q, %v", text, err)
		}
		for _, blob := range blobs {
			if !strings.Contains(text, "|"+digest(blob)+":"+blob) {
				t.Errorf("%q is missing in %q", blob, text)
			}
		}
	}
}

func TestEveryCutIsNoticed(t *testing.T) {
	backup := written(t, "database", "one", "two")
	end := len(backup) - 1024 // two blocks of zeros end a tar
	for at := range end {
		if at > end-512 && at >= bytes.LastIndexByte(backup, '\n')+1 {
			continue // the padding of the last entry
		}
		if _, err := read(backup[:at]); err == nil {
			t.Fatalf("a backup of %d bytes that was cut off at %d is taken for whole", len(backup), at)
		}
	}
}

// A bit of the padding or of an unread attribute may be another.
func TestEveryChangedBitIsNoticedOrMeansNothing(t *testing.T) {
	backup := written(t, "database", "one")
	want, err := read(backup)
	if err != nil {
		t.Fatal(err)
	}
	noticed := 0
	for at := range backup {
		changed := bytes.Clone(backup)
		changed[at] ^= 1 << (at % 8)
		got, err := read(changed)
		if err == nil && got != want {
			t.Fatalf("with bit %d of byte %d changed it is read as %q", at%8, at, got)
		}
		if err != nil {
			noticed++
		}
	}
	if noticed < 500 {
		t.Errorf("only %d changes were noticed", noticed)
	}
}

func TestAWriterThatRunsOutOfContentSaysSo(t *testing.T) {
	w, err := NewWriter(io.Discard, Manifest{Format: Format})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Store(9, strings.NewReader("database")); err == nil || !strings.Contains(err.Error(), "ends after 8 of 9") {
		t.Errorf("got %v", err)
	}
}

// Whatever is given to a restore, it is refused or contains what its sums say.
func FuzzRead(f *testing.F) {
	f.Add(written(f, "database", "one", "two"))
	f.Add(written(f, ""))
	f.Add([]byte("no backup"))
	f.Fuzz(func(t *testing.T, backup []byte) {
		sums := map[string]bool{}
		_, seal, err := Read(bytes.NewReader(backup), Taker{
			Manifest: func(Manifest) error { return nil },
			Store:    func(_ int64, r io.Reader) error { return sumInto(sums, r) },
			Blob:     func(_ string, _ int64, r io.Reader) error { return sumInto(sums, r) },
		})
		if err != nil {
			return
		}
		for sum := range sums {
			if !bytes.Contains(seal.Sums, []byte(sum)) {
				t.Errorf("%s was read, and the sums are\n%s", sum, seal.Sums)
			}
		}
	})
}

func sumInto(sums map[string]bool, r io.Reader) error {
	content, err := io.ReadAll(r)
	sums[digest(string(content))] = true
	return err
}
