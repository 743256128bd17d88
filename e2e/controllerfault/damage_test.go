package controllerfault

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const page = 4096

// What may be wrong with the data directory when a controller starts, and what it says.
// If says is nil, it has to start with everything in it. If it is "*", both are right,
// because not every byte of a page means something.
var damages = []struct {
	name, shows string
	do          func(t *testing.T, r *rig)
	says        []string
}{
	{"first-header", "a changed byte in the first header of the store", flip(0, 40), []string{"not an intact store", "header", "restore a backup"}},
	{"second-header", "a changed byte in the second header of the store", flip(1, 40), []string{"not an intact store", "header", "restore a backup"}},
	{"both-headers", "a changed byte in both headers of the store", both(flip(0, 40), flip(1, 40)), []string{"not an intact store", "restore a backup"}},
	{"unused", "a changed byte in a page that nothing uses", flip(-1, 2000), nil},
	{"branch", "changed bytes in each branch page", flipKind(0x01), []string{"*"}},
	{"leaf", "changed bytes in each leaf page", flipKind(0x02), []string{"*"}},
	{"freelist", "changed bytes in each list of free pages", flipKind(0x10), []string{"*"}},
	{"record", "a changed letter inside a record that is still valid JSON", letter, []string{"the record ", "checksum does not match", "restore a backup"}},
	{"truncated", "the second half of the store is missing", truncate(2), []string{"not an intact store", "bytes and should have", "restore a backup"}},
	{"one-page", "the store ends after its first header", func(t *testing.T, r *rig) { must(t, os.Truncate(r.store(), page)) }, []string{"not an intact store", "restore a backup"}},
	{"not-a-store", "another file lies in its place", text, []string{"not an intact store", "move it away"}},
	{"other-key", "the seal key is another", otherKey, []string{"sealed with the key", "put the right key there"}},
	{"no-key", "the seal key is gone", func(t *testing.T, r *rig) { must(t, os.Remove(r.key())) }, []string{"is missing", "put it back"}},
	{"newer", "a later version has written to the store", later, []string{"schema is version", "run the controller that wrote it"}},
	{"readable", "others can read the store", func(t *testing.T, r *rig) { must(t, os.Chmod(r.store(), 0o644)) }, []string{"others can read it", "chmod 0600"}},
}

// Every start finds everything, or is refused with a message that says what to do, never
// with the trace of a panic.
func TestDamagedData(t *testing.T) {
	r := newRig(t, unrecorded(), loopback.Options{Binary: withFailpoints(t)})
	workload(r)
	r.c.End(syscall.SIGTERM)
	intact, key := content(t, r.store()), content(t, r.key())
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			r.record = begin(t, "damage-"+d.name, d.shows+": everything is there, or the start is refused with what to do")
			r.t, r.stage = t, d.name
			d.do(t, r)
			damaged := content(t, r.store())
			if r.starts(d.says) {
				r.checkLedger()
			} else if err := r.record.check(kept(func() int { return len(damaged) }, func() error {
				if !bytes.Equal(content(t, r.store()), damaged) {
					return errors.New("the refused store was changed")
				}
				return nil
			})); err != nil {
				t.Error(err)
			}
			r.c.End(syscall.SIGTERM)
			for path, whole := range map[string][]byte{r.store(): intact, r.key(): key} {
				must(t, errors.Join(os.WriteFile(path, whole, 0o600), os.Chmod(path, 0o600)))
			}
		})
	}
	r.t, r.record = t, unrecorded()
	r.c.Start()
	r.checkLedger()
}

func (r *rig) store() string { return filepath.Join(r.data, "store.db") }

func (r *rig) key() string { return filepath.Join(r.data, "seal.key") }

// starts starts the controller. It has to run if says is empty, otherwise to end with
// these words.
func (r *rig) starts(says []string) bool {
	r.t.Helper()
	err := r.c.TryStart(r.t.Context())
	either := len(says) == 1 && says[0] == "*"
	switch {
	case err == nil:
		if len(says) > 0 && !either {
			r.t.Error("it started")
		}
		return true
	case len(says) == 0:
		r.t.Errorf("it did not start: %v", err)
	case either:
		says = []string{"restore a backup"}
	}
	r.words(err.Error(), says)
	return false
}

// words wants these in what a controller said that ended, and no trace of a panic.
func (r *rig) words(said string, words []string) {
	r.t.Helper()
	for _, word := range words {
		if !strings.Contains(said, word) {
			r.t.Errorf("it did not say %q:\n%s", word, said)
		}
	}
	for _, trace := range []string{"goroutine ", "panic:", "fatal error:", "SIGBUS", "SIGSEGV"} {
		if strings.Contains(said, trace) {
			r.t.Errorf("it ended with a trace:\n%s", said)
		}
	}
	if !strings.Contains(said, "exit status 1") {
		r.t.Errorf("it did not end with exit status 1:\n%s", said)
	}
}

// A second controller on the same data names the first, and changes nothing.
func TestLockedStore(t *testing.T) {
	r := newRig(t, begin(t, "locked", "another controller has the store open: the second start names it and ends, the first goes on"), loopback.Options{})
	workload(r)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	second := exec.CommandContext(ctx, filepath.Join(loopback.Bin(t), "nodehitch-controller"), "serve", "--config", r.c.ConfigFile(),
		"--listen", loopback.FreeAddress(t), "--socket", filepath.Join(t.TempDir(), "socket"))
	out, err := second.CombinedOutput()
	r.words(fmt.Sprintf("%s%v", out, err), []string{"is held by another process", fmt.Sprintf("pid %d", r.c.PID()), "stop it"})
	r.checkLedger()
}

func flip(number, offset int) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		t.Helper()
		b := content(t, r.store())
		if number < 0 {
			number = len(b)/page - 1
		}
		b[number*page+offset] ^= 0x10
		must(t, os.WriteFile(r.store(), b, 0o600))
	}
}

func both(a, b func(*testing.T, *rig)) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) { a(t, r); b(t, r) }
}

// flipKind changes a byte in one page of a kind after another, whether in use or
// not, each in a start of its own. In the end all is as it was.
func flipKind(kind uint16) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		t.Helper()
		intact := content(t, r.store())
		tried, refused := 0, 0
		most := 6 // of each
		if results.Full() {
			most = 33
		}
		for n, offset := range []int{8, 10, 20} { // the kind, the count, an element
			for at := 2 * page; at+page <= len(intact) && tried < most*(n+1); at += page {
				if binary.NativeEndian.Uint16(intact[at+8:]) != kind {
					continue
				}
				damaged := bytes.Clone(intact)
				damaged[at+offset] ^= 0x03
				must(t, os.WriteFile(r.store(), damaged, 0o600))
				tried++
				if !r.starts([]string{"*"}) {
					refused++
					continue
				}
				r.checkLedger()
				r.c.End(syscall.SIGTERM)
			}
		}
		r.record.Figure("starts", "%d; %d refused", tried, refused)
		if refused == 0 {
			t.Error("no damage was noticed: none changed a byte that means something")
		}
		must(t, os.WriteFile(r.store(), intact, 0o600))
	}
}

// letter turns "storage" into another word in each copy of a node's record.
func letter(t *testing.T, r *rig) {
	t.Helper()
	b := string(content(t, r.store()))
	changed := strings.ReplaceAll(b, `"name":"storage_server"`, `"name":"storage_sarver"`)
	if changed == b {
		t.Fatal("the store has no such record")
	}
	must(t, os.WriteFile(r.store(), []byte(changed), 0o600))
}

func truncate(divisor int64) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		t.Helper()
		b := content(t, r.store())
		// What bbolt has reserved behind the last page is not used.
		end := int64(max(binary.NativeEndian.Uint64(b[56:]), binary.NativeEndian.Uint64(b[page+56:]))) * page
		must(t, os.Truncate(r.store(), end/divisor))
	}
}

func text(t *testing.T, r *rig) {
	t.Helper()
	must(t, os.WriteFile(r.store(), []byte(strings.Repeat("this is no store\n", 1000)), 0o600))
}

func otherKey(t *testing.T, r *rig) {
	t.Helper()
	must(t, os.WriteFile(r.key(), []byte(strings.Repeat("k", 32)), 0o600))
}

// later makes the store by a later controller, which does not read today's schema. Package
// files are moved aside meanwhile, because that store names none.
func later(t *testing.T, r *rig) {
	t.Helper()
	blobs, aside := filepath.Join(r.data, "blobs"), filepath.Join(t.TempDir(), "blobs")
	must(t, errors.Join(os.Remove(r.store()), os.Rename(blobs, aside)))
	r.c.SetEnv(newerEnv + "=1")
	r.c.Start()
	r.c.End(syscall.SIGTERM)
	r.c.SetEnv()
	must(t, errors.Join(os.RemoveAll(blobs), os.Rename(aside, blobs)))
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
