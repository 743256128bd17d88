package store

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// place is a directory with room for a store and its key.
type place struct{ dir string }

func newPlace(t *testing.T) place {
	t.Helper()
	return place{dir: filepath.Join(t.TempDir(), "controller")}
}

func (p place) file() string { return filepath.Join(p.dir, "state.db") }
func (p place) key() string  { return filepath.Join(p.dir, "store.key") }

func (p place) options() Options {
	return Options{
		Path: p.file(),
		Key:  KeySource{File: p.key(), Create: true},
		Now:  func() time.Time { return time.Unix(1_790_000_000, 0) },
	}
}

func (p place) open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(p.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func update(t *testing.T, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFirstStartMakesAPrivateStore(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	for path, want := range map[string]os.FileMode{p.dir: 0o700, p.file(): 0o600, p.key(): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %#o, want %#o", path, got, want)
		}
	}
	if got := s.Epoch(); got != 1_790_000_000 {
		t.Errorf("epoch %d, want the time of the first start", got)
	}
}

func TestReopeningFindsEverything(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	sealed, err := s.Seal([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	want := Node{ID: "n1", InstanceID: "i1", Generation: 7, Config: sealed}
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n1", want) })
	mac := s.MAC("test", []byte("data"))
	s.Close()

	s = p.open(t)
	err = s.View(func(tx *Tx) error {
		got, found, err := tx.Nodes().Get("n1")
		if !found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		plain, err := s.Unseal(got.Config)
		if string(plain) != "s3cret" {
			t.Errorf("unsealed %q, %v", plain, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mac, s.MAC("test", []byte("data"))) {
		t.Error("a MAC of before is not the MAC of now")
	}
	if bytes.Equal(mac, s.MAC("other", []byte("data"))) {
		t.Error("two purposes share a MAC")
	}
}

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
	if _, err := s.WriteTo(&backup); err != nil {
		t.Fatal(err)
	}
	s.Close()
	key := read(t, p.key())
	for name, content := range map[string][]byte{"file": read(t, p.file()), "backup": backup.Bytes()} {
		if !bytes.Contains(content, []byte(`"instanceId":"i1"`)) {
			t.Errorf("the %s does not hold the record at all", name)
		}
		for what, plain := range map[string][]byte{"secret": secret, "key": key} {
			if bytes.Contains(content, plain) {
				t.Errorf("the %s holds the %s in the clear", name, what)
			}
		}
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	s := newPlace(t).open(t)
	boom := errors.New("boom")
	committed := false
	err := s.Update(func(tx *Tx) error {
		tx.OnCommit(func() { committed = true })
		if err := tx.Nodes().Put("n1", Node{ID: "n1"}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want the function's own", err)
	}
	if committed {
		t.Error("OnCommit ran after a rollback")
	}
	err = s.View(func(tx *Tx) error {
		if _, found, _ := tx.Nodes().Get("n1"); found {
			t.Error("a failed transaction left a record")
		}
		return tx.Nodes().Put("n1", Node{})
	})
	wantError(t, err, "nodes/n1")
}

func TestDamagedRecordNamesItsPlace(t *testing.T) {
	s := newPlace(t).open(t)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketVolumes)).Put([]byte("v1"), []byte(`{"id":`))
	})
	if err != nil {
		t.Fatal(err)
	}
	s.View(func(tx *Tx) error {
		_, _, err := tx.Volumes().Get("v1")
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Bucket != "volumes" || corrupt.Key != "v1" {
			t.Errorf("Get: %v, want a CorruptError of volumes/v1", err)
		}
		_, err = tx.Volumes().All()
		wantError(t, err, "volumes/v1", "restore a backup")
		return nil
	})
}

func TestSecondOpenNamesTheHolder(t *testing.T) {
	p := newPlace(t)
	p.open(t)
	start := time.Now()
	_, err := Open(p.options())
	wantError(t, err, p.file(), "held by another process", "stop it")
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	if _, statErr := os.Stat("/proc/locks"); statErr == nil {
		wantError(t, err, "pid ")
	}
}

func TestLockOwner(t *testing.T) {
	locks := "1: POSIX  ADVISORY  WRITE 7 00:1f:42 0 EOF\n" +
		"2: FLOCK  ADVISORY  WRITE 8 00:1f:142 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 9 00:1f:42 0 EOF\n"
	for inode, want := range map[uint64]int{42: 9, 142: 8, 2: 0} {
		if got := lockOwner(locks, inode); got != want {
			t.Errorf("inode %d: pid %d, want %d", inode, got, want)
		}
	}
}

func TestWrongKeyChangesNothing(t *testing.T) {
	p := newPlace(t)
	p.open(t).Close()
	before := read(t, p.file())
	if err := os.WriteFile(p.key(), bytes.Repeat([]byte{7}, KeySize), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(p.options())
	wantError(t, err, p.file(), p.key(), "put the right key there")
	if !bytes.Equal(before, read(t, p.file())) {
		t.Error("the refused store was changed")
	}
}

func TestLostKeyIsNotReplaced(t *testing.T) {
	p := newPlace(t)
	p.open(t).Close()
	if err := os.Remove(p.key()); err != nil {
		t.Fatal(err)
	}
	_, err := Open(p.options())
	wantError(t, err, p.key(), "missing", "put it back")
	if _, err := os.Stat(p.key()); err == nil {
		t.Error("a new key was made for a store that is sealed with another")
	}
}

func TestKeySourcesThatAreRefused(t *testing.T) {
	write := func(mode os.FileMode, size int) func(string) {
		return func(path string) {
			if err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte{1}, size), 0o600), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(path string) KeySource { return KeySource{File: path} }
	credential := func(path string) KeySource { return KeySource{Credential: path} }
	for name, c := range map[string]struct {
		prepare func(path string)
		source  func(path string) KeySource
		says    string // "" = accepted
	}{
		"key file":                          {write(0o600, 32), file, ""},
		"read-only key file":                {write(0o400, 32), file, ""},
		"readable by the group":             {write(0o640, 32), file, "chmod 0600"},
		"readable by all":                   {write(0o604, 32), file, "chmod 0600"},
		"too short":                         {write(0o600, 31), file, "31 bytes"},
		"with a newline":                    {write(0o600, 33), file, "33 bytes"},
		"missing, creation not allowed":     {func(string) {}, file, "head -c 32"},
		"credential by an access list":      {write(0o440, 32), credential, ""},
		"credential readable by all":        {write(0o444, 32), credential, "others can read it"},
		"credential that systemd never set": {func(string) {}, credential, "LoadCredential="},
		"both":                              {write(0o600, 32), func(p string) KeySource { return KeySource{File: p, Credential: p} }, "not configured"},
		"none":                              {func(string) {}, func(string) KeySource { return KeySource{} }, "not configured"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "key")
			c.prepare(path)
			s, err := Open(Options{Path: filepath.Join(dir, "state.db"), Key: c.source(path)})
			if c.says != "" {
				wantError(t, err, c.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		})
	}
}

func TestPlacesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, p place) error
		says    string
	}{
		"a directory that others can write": {func(_ *testing.T, p place) error { return os.Chmod(p.dir, 0o777) }, "chmod 0700"},
		"a store that others can read":      {func(_ *testing.T, p place) error { return os.Chmod(p.file(), 0o644) }, "chmod 0600"},
		"a damaged store": {func(t *testing.T, p place) error {
			return os.WriteFile(p.file(), bytes.Repeat([]byte("x"), 1<<16), 0o600)
		}, "restore a backup"},
		"somebody else's bbolt file": {func(t *testing.T, p place) error {
			os.Remove(p.file())
			db, err := bbolt.Open(p.file(), 0o600, nil)
			if err != nil {
				return err
			}
			defer db.Close()
			return db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("etcd")); return err })
		}, "not a nodehitch store"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.open(t).Close()
			if err := c.prepare(t, p); err != nil {
				t.Fatal(err)
			}
			_, err := Open(p.options())
			wantError(t, err, c.says)
		})
	}
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

func TestANewEpochOutlivesRestarts(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	first := s.Epoch()
	second, err := s.NewEpoch()
	if err != nil {
		t.Fatal(err)
	}
	if second <= first || s.Epoch() != second {
		t.Errorf("epochs %d then %d (now %d)", first, second, s.Epoch())
	}
	s.Close()
	if got := p.open(t).Epoch(); got != second {
		t.Errorf("epoch %d after a restart, want %d", got, second)
	}
}

// A backup made while the store is in use opens as a store with the same key.
func TestBackupIsAStore(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	update(t, s, func(tx *Tx) error { return tx.Instances().Put("i1", Instance{ID: "i1"}) })
	copied := filepath.Join(p.dir, "copy.db")
	f, err := os.OpenFile(copied, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	restored, err := Open(Options{Path: copied, Key: KeySource{File: p.key()}})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	restored.View(func(tx *Tx) error {
		if _, found, err := tx.Instances().Get("i1"); !found || err != nil {
			t.Errorf("the record is not in the copy: %v", err)
		}
		return nil
	})
}

// The file survives a controller that is killed in the middle of its writes with
// all that was acknowledged.
func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	if dir := os.Getenv("STORE_TEST_WRITER"); dir != "" {
		writeUntilKilled(t, place{dir: dir})
	}
	p := newPlace(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriterLosesNothingAcknowledged$")
	cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+p.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := make([]byte, 200)
	n := 0
	for n < len(acknowledged) {
		m, err := out.Read(acknowledged[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	cmd.Process.Kill()
	cmd.Wait()
	s := p.open(t)
	s.View(func(tx *Tx) error {
		all, err := tx.Operations().All()
		if err != nil {
			t.Error(err)
		}
		if len(all) < n {
			t.Errorf("%d records, and %d were acknowledged", len(all), n)
		}
		for i, op := range all {
			if op.Sequence != int64(i) {
				t.Fatalf("record %d has sequence %d", i, op.Sequence)
			}
		}
		return nil
	})
}

func writeUntilKilled(t *testing.T, p place) {
	s := p.open(t)
	for i := int64(0); ; i++ {
		update(t, s, func(tx *Tx) error {
			return tx.Operations().Put(OperationKey("i1", i), Operation{Sequence: i})
		})
		os.Stdout.WriteString(".")
	}
}

func BenchmarkUpdate(b *testing.B) {
	p := place{dir: filepath.Join(b.TempDir(), "controller")}
	s, err := Open(p.options())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	node := Node{ID: "n1", Config: bytes.Repeat([]byte{1}, 4096)}
	for b.Loop() {
		if err := s.Update(func(tx *Tx) error { return tx.Nodes().Put("n1", node) }); err != nil {
			b.Fatal(err)
		}
	}
}
