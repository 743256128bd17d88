package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// exported are the records of a store of any engine, by line.
func exported(t testing.TB, s *Store) string {
	t.Helper()
	var b bytes.Buffer
	view(t, s, func(tx *Tx) error { return tx.Export(&b) })
	return b.String()
}

// imported is the store of the lines, with the key of the place.
func imported(t *testing.T, p place, lines string) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "imported.db")
	must(t, Import(path, strings.NewReader(lines)))
	o := p.options()
	o.Path = path
	s, err := Open(o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestWhatIsExportedComesBackByteForByte(t *testing.T) {
	p, want := used(t)
	s := p.open(t)
	lines := exported(t, s)
	again := imported(t, p, lines)
	if diff := cmp.Diff(want, everything(t, again)); diff != "" {
		t.Error(diff)
	}
	if exported(t, again) != lines {
		t.Error("the second export is another one")
	}
}

// counted counts what is written at once.
type counted struct{ writes, largest, all int }

func (c *counted) Write(b []byte) (int, error) {
	c.writes, c.largest, c.all = c.writes+1, max(c.largest, len(b)), c.all+len(b)
	return len(b), nil
}

// A store may be larger than memory.
func TestAnExportAndAnImportHoldLittleInMemory(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	for i := range 16 {
		update(t, s, func(tx *Tx) error {
			id := fmt.Sprintf("n%02d", i)
			return tx.Nodes().Put(id, Node{ID: id, Name: strings.Repeat("x", 1<<18)})
		})
	}
	var c counted
	view(t, s, func(tx *Tx) error { return tx.Export(&c) })
	if c.all < 4<<20 || c.largest > 1<<19 {
		t.Errorf("of %d bytes %d were written at once", c.all, c.largest)
	}
	path := filepath.Join(t.TempDir(), "x", "imported.db")
	must(t, Import(path, strings.NewReader(exported(t, s))))
	file, err := openBolt(path, 0)
	must(t, err)
	tx, err := file.db.Begin(false)
	must(t, err)
	if tx.ID() < 4 { // a new file has the number 1
		t.Errorf("4 MiB were written in %d transactions", tx.ID()-1)
	}
	must(t, tx.Rollback())
	must(t, file.close())
}

func TestLinesThatNoExportHasWritten(t *testing.T) {
	for name, lines := range map[string]string{
		"no JSON":            "hello\n",
		"another field":      `{"bucket":"nodes","colour":"red"}`,
		"no bucket":          `{"key":"k","json":1}`,
		"a key before it":    `{"bucket":"nodes","key":"k","json":1}`,
		"a bucket twice":     `{"bucket":"nodes"}` + "\n" + `{"bucket":"nodes"}`,
		"a key twice":        `{"bucket":"nodes"}` + "\n" + `{"bucket":"nodes","key":"k","json":1}` + "\n" + `{"bucket":"nodes","key":"k","json":2}`,
		"keys out of order":  `{"bucket":"nodes"}` + "\n" + `{"bucket":"nodes","key":"l","json":1}` + "\n" + `{"bucket":"nodes","key":"k","json":2}`,
		"buckets out of it":  `{"bucket":"nodes"}` + "\n" + `{"bucket":"files"}`,
		"no value":           `{"bucket":"nodes"}` + "\n" + `{"bucket":"nodes","key":"k"}`,
		"two values":         `{"bucket":"nodes"}` + "\n" + `{"bucket":"nodes","key":"k","json":1,"base64":"eA=="}`,
		"a line without end": strings.Repeat(" ", maxLine+1),
	} {
		if err := Import(filepath.Join(t.TempDir(), "x", "s.db"), strings.NewReader(lines)); !errors.Is(err, ErrNotRecords) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := io.MultiReader(strings.NewReader(`{"bucket":"nodes"}`), &cutOff{})
	if err := Import(filepath.Join(t.TempDir(), "x", "s.db"), cut); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

type cutOff struct{}

func (*cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestADamagedRecordIsNotExported(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	update(t, s, putNode("n1"))
	must(t, s.updates.update(func(w writer) error { return w.put(bucketNodes, "n1", []byte("xxxxxxx")) }))
	var corrupt *CorruptError
	if err := s.View(func(tx *Tx) error { return tx.Export(io.Discard) }); !errors.As(err, &corrupt) || corrupt.Key != "n1" {
		t.Errorf("error %v", err)
	}
}

// stopping is a term in which the controller is killed after so many commits.
type stopping struct {
	Term
	left, done int
}

var errKilled = errors.New("killed")

func (s *stopping) Commit(head []byte, changes map[string][]byte) error {
	if s.left--; s.left < 0 {
		return errKilled
	}
	s.done++
	return s.Term.Commit(head, changes)
}

// replacement opens one for a controller that is killed after so many commits.
func (r replica) replacement(t *testing.T, d database, kill int) (*Replacement, *stopping) {
	t.Helper()
	term := &stopping{Term: d.term(t), left: kill}
	o := r.options()
	o.Shared = &Shared{Term: term, History: newHistory(t, r.history()), Name: "etcd"}
	to, err := OpenReplacement(o)
	must(t, err)
	t.Cleanup(func() { _ = to.Close() })
	return to, term
}

// filled is a store in a file with so many nodes.
func filled(t *testing.T, p place, nodes int) *Store {
	t.Helper()
	s := p.open(t)
	for i := range nodes {
		update(t, s, putNode(fmt.Sprintf("n%03d", i)))
	}
	return s
}

const never = 1 << 20

// Wherever it is killed, the database has the old state, or the new one, or one that every
// controller refuses, until it is run again.
func TestAReplacementIsKilledAtEachCommit(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "--max-txn-ops=16")
	a, b := replicas(t)
	old, _ := b.open(t, d)
	for i := range 40 {
		update(t, old, putNode(fmt.Sprintf("old%03d", i)))
	}
	shut(t, old)
	before := d.values(t)
	from := filled(t, a.place, 50)
	_, err := from.BeginEpoch(NewEpoch{After: old.Epoch()})
	must(t, err)
	want, other := exported(t, from), d.other(t)
	refused, commits := 0, never
	for kill := 0; kill <= commits; kill++ {
		d.reset(t, other, before)
		to, term := a.replacement(t, d, kill)
		err := to.Fill(from, Unfinished{By: "restore", Aside: "aside"}, nil)
		shut(t, to)
		switch {
		case err == nil:
			commits = term.done
		case !errors.Is(err, errKilled):
			t.Fatal(err)
		case kill == 0:
			if diff := cmp.Diff(before, d.values(t)); diff != "" {
				t.Fatal(diff)
			}
		default:
			var unfinished *UnfinishedError
			if _, _, err := b.try(t, d); !errors.As(err, &unfinished) || unfinished.Aside != "aside" {
				t.Fatalf("killed after %d commits: the store opens with %v", kill, err)
			}
			refused++
		}
		to, _ = a.replacement(t, d, never)
		if kill > 0 && kill < commits && (to.Unfinished() == nil || to.Unfinished().Aside != "aside") {
			t.Fatalf("killed after %d commits: it is %+v", kill, to.Unfinished())
		}
		must(t, to.Fill(from, Unfinished{By: "restore", Aside: "aside"}, nil))
		shut(t, to)
		s, _ := b.open(t, d)
		if got := exported(t, s); got != want {
			t.Fatalf("killed after %d commits and run again: %s", kill, cmp.Diff(want, got))
		}
		shut(t, s)
		must(t, errors.Join(os.Remove(a.history()), os.Remove(b.history())))
	}
	if refused < 5 {
		t.Errorf("it was killed at %d places between commits", refused)
	}
}

// reset makes etcd what it was.
func (d database) reset(t *testing.T, other *clientv3.Client, before map[string]string) {
	t.Helper()
	_, err := other.Delete(t.Context(), d.prefix+"/", clientv3.WithPrefix())
	must(t, err)
	for key, value := range before {
		_, err := other.Put(t.Context(), d.prefix+key, value)
		must(t, err)
	}
}

// A client without the seal key cannot make an unfinished state a finished one, although all
// records are there.
func TestAnUnfinishedHeadIsSigned(t *testing.T) {
	d := newDatabase(t, "--max-txn-ops=16")
	a, b := replicas(t)
	from := filled(t, a.place, 30)
	to, _ := a.replacement(t, d, never)
	if err := to.Fill(from, Unfinished{By: "restore"}, func() error { return errKilled }); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	shut(t, to)
	head := d.values(t)["/head"]
	forged := strings.Replace(head, `"unfinished":{"by":"restore"},`, "", 1)
	if forged == head {
		t.Fatal(head)
	}
	_, err := d.other(t).Put(t.Context(), d.prefix+"/head", forged)
	must(t, err)
	if s, _, err := b.try(t, d); err == nil {
		shut(t, s)
		t.Error("it was opened")
	}
}

// What others have written under the prefix goes, and does not stay as a record.
func TestAReplacementOfAStateThatCannotBeRead(t *testing.T) {
	d := newDatabase(t, "--max-txn-ops=16")
	a, b := replicas(t)
	s, _ := b.open(t, d)
	update(t, s, putNode("n001"))
	update(t, s, putNode("n1"))
	shut(t, s)
	other := d.other(t)
	for key, value := range map[string]string{"/v1/nodes/n001": "forged", "/v1/nodes/zzz": "x", "/v1/other/k": "y"} {
		_, err := other.Put(t.Context(), d.prefix+key, value)
		must(t, err)
	}
	to, _ := a.replacement(t, d, never)
	var corrupt *CorruptError
	if old, err := to.Old(); old != nil || !errors.As(err, &corrupt) {
		t.Errorf("the old state is read: %v", err)
	}
	from := filled(t, a.place, 20)
	_, err := from.BeginEpoch(NewEpoch{After: to.Epoch()})
	must(t, err)
	must(t, to.Fill(from, Unfinished{By: "restore"}, nil))
	shut(t, to)
	s, _ = b.open(t, d)
	if exported(t, s) != exported(t, from) {
		t.Error("it is not what it was filled with")
	}
}

// Nothing is written if one record is too large.
func TestARecordThatFitsIntoNoCommit(t *testing.T) {
	d := newDatabase(t, "--max-request-bytes=131072")
	a, _ := replicas(t)
	from := filled(t, a.place, 3)
	update(t, from, func(tx *Tx) error { return tx.Nodes().Put("n9", Node{ID: "n9", Name: strings.Repeat("x", 1<<18)}) })
	to, term := a.replacement(t, d, never)
	err := to.Fill(from, Unfinished{By: "restore"}, nil)
	wantError(t, err, "nodes/n9", "--max-request-bytes")
	if term.done != 0 {
		t.Errorf("%d commits were made", term.done)
	}
}

func TestAStoreThatWasMoved(t *testing.T) {
	p := newPlace(t)
	s := filled(t, p, 1)
	before := maps.Clone(everything(t, s))
	lines := exported(t, s)
	must(t, s.MarkMoved(Moved{To: "etcd /nodehitch"}))
	if exported(t, s) != lines {
		t.Error("the mark is exported")
	}
	shut(t, s)
	var moved *MovedError
	if _, err := Open(p.options()); !errors.As(err, &moved) || !strings.Contains(err.Error(), "etcd /nodehitch") {
		t.Errorf("it opens with %v", err)
	}
	o := p.options()
	o.Moved = true
	s, err := Open(o)
	must(t, err)
	defer shut(t, s)
	after := everything(t, s)
	delete(after, "meta/moved")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}
