package store

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

func TestBoltIsAnEngine(t *testing.T) {
	conformance(t, func(t *testing.T) *Store {
		b, err := openBolt(filepath.Join(t.TempDir(), "store.db"), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s := newStore(Options{})
		s.use(b, nil)
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

// testBuckets are those that the conformance tests use.
var testBuckets = []string{"meta", "nodes"}

// conformance is what every engine has to do under a store. open returns a new one without buckets.
func conformance(t *testing.T, open func(*testing.T) *Store) {
	for name, test := range map[string]func(*testing.T, *Store){
		"as one by one":                   asOneByOne,
		"a bucket that is new":            aNewBucket,
		"a view sees what is committed":   viewsSeeCommits,
		"an update sees those before it":  updatesSeeEachOther,
		"one's failure is its own":        failureIsItsOwn,
		"a panic reaches its own caller":  panicIsItsOwn,
		"an end of a goroutine is no end": goexitIsItsOwn,
		"keys that are refused":           keysThatAreRefused,
		"many at the same time":           manyAtOnce,
		"one turn after the other":        turnAfterTurn,
		"closed":                          closedIsClosed,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			if name != "a bucket that is new" {
				must(t, s.updates.update(func(w writer) error {
					for _, bucket := range testBuckets {
						w.create(bucket)
					}
					return nil
				}))
			}
			test(t, s)
		})
	}
}

// together runs updates that share a commit, in this order, and returns what each
// returned or panicked with.
func together[T any](t rapid.TB, update func(func(T) error) error, g *group, fns ...func(T) error) []error {
	t.Helper()
	results := make([]error, len(fns))
	var running sync.WaitGroup
	must(t, update(func(T) error {
		for i, fn := range fns {
			running.Go(func() { results[i] = outcome(func() error { return update(fn) }) })
			for queued(g) <= i {
				runtime.Gosched()
			}
		}
		return nil
	}))
	running.Wait()
	return results
}

// While an update has its turn, the others of its commit wait for its end.
func turnAfterTurn(t *testing.T, s *Store) {
	for busy(&s.updates) { // with what came before: it cannot work for those in the bubble
		runtime.Gosched()
	}
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Bool
		must(t, together(t, s.updates.update, &s.updates, func(writer) error {
			synctest.Wait() // until nothing else can go on
			if begun.Load() {
				t.Error("the second has its turn before the first is over")
			}
			return nil
		}, func(writer) error {
			begun.Store(true)
			return nil
		})...)
		if !begun.Load() {
			t.Error("the second had no turn")
		}
	})
}

func busy(g *group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.working
}

func queued(g *group) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func must(t rapid.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func putting(key, value string) func(writer) error {
	return func(w writer) error { return w.put("nodes", key, []byte(value)) }
}

// contents is all of a bucket.
func contents(t *testing.T, s *Store, bucket string) (list []string) {
	t.Helper()
	must(t, s.engine.view(func(r snapshot) error {
		list = listed(r, bucket, "")
		return nil
	}))
	return list
}

func listed(r reader, bucket, prefix string) []string {
	list := []string{}
	for key, value := range r.scan(bucket, prefix) {
		list = append(list, key+"="+string(value))
	}
	return list
}

// Whatever updates do, however they end and whichever share a commit: each reads and
// leaves what it would if they were transactions of bbolt, one after another, and what
// a map would.
func asOneByOne(t *testing.T, s *Store) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "alone.db"), 0o600, &bbolt.Options{NoSync: true})
	must(t, err)
	defer shut(t, db)
	rapid.Check(t, func(r *rapid.T) {
		must(t, s.updates.update(emptied), db.Update(func(tx *bbolt.Tx) error { return emptied(direct{tx}) }))
		plain := newFlat()
		for range rapid.IntRange(1, 6).Draw(r, "groups") {
			var programs []program
			for range rapid.IntRange(1, 4).Draw(r, "together") {
				programs = append(programs, drawProgram(r))
			}
			var shared [4]string
			var fns []func(writer) error
			for i, p := range programs {
				fns = append(fns, func(w writer) error { return p.run(w, &shared[i]) })
			}
			ends := together(r, s.updates.update, &s.updates, fns...)
			for i, p := range programs {
				var alone, model string
				end := outcome(func() error {
					return db.Update(func(tx *bbolt.Tx) error { return p.run(direct{tx}, &alone) })
				})
				next := plain.clone()
				if outcome(func() error { return p.run(next, &model) }) == nil {
					plain = next
				}
				if diff := cmp.Diff(model, shared[i]); diff != "" {
					r.Fatalf("update %d of %d reads something else than a map: %s", i, len(programs), diff)
				}
				if diff := cmp.Diff(alone, shared[i]); diff != "" {
					r.Fatalf("update %d of %d reads something else than alone: %s", i, len(programs), diff)
				}
				if fmt.Sprint(ends[i]) != fmt.Sprint(end) {
					r.Fatalf("update %d of %d ended with %v, alone with %v", i, len(programs), ends[i], end)
				}
			}
			for _, bucket := range testBuckets {
				if diff := cmp.Diff(listed(plain, bucket, ""), contents(t, s, bucket)); diff != "" {
					r.Fatalf("the bucket %q is not what it should be: %s", bucket, diff)
				}
			}
		}
	})
}

func emptied(w writer) error {
	for _, bucket := range testBuckets {
		w.create(bucket)
		var keys []string
		for key := range w.scan(bucket, "") {
			keys = append(keys, key)
		}
		for _, key := range keys {
			w.delete(bucket, key)
		}
	}
	return nil
}

// program is what an update does: steps, and how it ends.
type program struct {
	steps []step
	end   string
}

type step struct{ what, bucket, key, value string }

func drawProgram(r *rapid.T) program {
	p := program{end: rapid.SampledFrom([]string{"commits", "commits", "commits", "fails", "panics"}).Draw(r, "end")}
	for range rapid.IntRange(0, 8).Draw(r, "steps") {
		p.steps = append(p.steps, step{
			what:   rapid.SampledFrom([]string{"put", "put", "delete", "get", "scan", "first"}).Draw(r, "what"),
			bucket: rapid.SampledFrom(testBuckets).Draw(r, "bucket"),
			// Few and short keys, so that they meet and are each other's prefixes.
			key:   rapid.StringMatching(`[ab/]{1,2}`).Draw(r, "key"),
			value: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(r, "value"),
		})
	}
	return p
}

var errProgram = errors.New("the program fails")

// run does the steps and tells what it read.
func (p program) run(w writer, read *string) error {
	*read = ""
	for _, s := range p.steps {
		switch s.what {
		case "put":
			if err := w.put(s.bucket, s.key, []byte(s.value)); err != nil {
				return err
			}
		case "delete":
			w.delete(s.bucket, s.key)
		case "get":
			value := w.get(s.bucket, s.key)
			*read += fmt.Sprintf("%s=%s (%v);", s.key, value, value != nil)
		case "scan":
			*read += fmt.Sprintf("%s*: %v;", s.key[:1], listed(w, s.bucket, s.key[:1]))
		case "first":
			for key, value := range w.scan(s.bucket, "") {
				*read += fmt.Sprintf("first %s=%s;", key, value)
				break
			}
		}
	}
	switch p.end {
	case "fails":
		return errProgram
	case "panics":
		panic(errProgram)
	}
	return nil
}

// direct writes straight into a transaction of bbolt.
type direct struct{ tx *bbolt.Tx }

func (d direct) has(bucket string) bool { return d.tx.Bucket([]byte(bucket)) != nil }
func (d direct) create(bucket string)   { _, _ = d.tx.CreateBucketIfNotExists([]byte(bucket)) }
func (d direct) get(bucket, key string) []byte {
	return d.tx.Bucket([]byte(bucket)).Get([]byte(key))
}
func (d direct) put(bucket, key string, value []byte) error {
	return d.tx.Bucket([]byte(bucket)).Put([]byte(key), value)
}
func (d direct) delete(bucket, key string) { _ = d.tx.Bucket([]byte(bucket)).Delete([]byte(key)) }
func (d direct) scan(bucket, prefix string) iter.Seq2[string, []byte] {
	all := newFlat()
	_ = d.tx.Bucket([]byte(bucket)).ForEach(func(key, value []byte) error {
		return all.put(bucket, string(key), value)
	})
	return all.scan(bucket, prefix)
}

// flat is a map.
type flat map[string]map[string]string

func newFlat() flat {
	f := flat{}
	for _, bucket := range testBuckets {
		f.create(bucket)
	}
	return f
}

func (f flat) clone() flat {
	c := flat{}
	for bucket, values := range f {
		c[bucket] = maps.Clone(values)
	}
	return c
}

func (f flat) has(bucket string) bool { return f[bucket] != nil }
func (f flat) create(bucket string)   { f[bucket] = map[string]string{} }
func (f flat) get(bucket, key string) []byte {
	if value, ok := f[bucket][key]; ok {
		return []byte(value)
	}
	return nil
}
func (f flat) put(bucket, key string, value []byte) error {
	f[bucket][key] = string(value)
	return nil
}
func (f flat) delete(bucket, key string) { delete(f[bucket], key) }
func (f flat) scan(bucket, prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(f[bucket])) {
			if strings.HasPrefix(key, prefix) && !yield(key, []byte(f[bucket][key])) {
				return
			}
		}
	}
}

func aNewBucket(t *testing.T, s *Store) {
	failed := errors.New("no")
	errs := together(t, s.updates.update, &s.updates,
		func(w writer) error { w.create("meta"); return failed },
		func(w writer) error {
			if w.has("meta") {
				t.Error("it has the bucket of an update that failed")
			}
			w.create("nodes")
			if len(listed(w, "nodes", "")) != 0 || w.get("nodes", "n1") != nil || !w.has("nodes") {
				t.Error("a new bucket is not empty, or not there")
			}
			return w.put("nodes", "n1", []byte("one"))
		},
		func(w writer) error {
			w.create("nodes")
			if diff := cmp.Diff([]string{"n1=one"}, listed(w, "nodes", "n")); diff != "" {
				t.Error(diff)
			}
			return nil
		})
	if !errors.Is(errs[0], failed) || errs[1] != nil || errs[2] != nil {
		t.Errorf("errors %v", errs)
	}
	must(t, s.engine.view(func(r snapshot) error {
		if r.has("meta") || !r.has("nodes") {
			t.Errorf("it has meta: %v, nodes: %v", r.has("meta"), r.has("nodes"))
		}
		return nil
	}))
}

func viewsSeeCommits(t *testing.T, s *Store) {
	must(t, s.updates.update(putting("n1", "old")))
	must(t, together(t, s.updates.update, &s.updates, putting("n1", "new"), func(writer) error {
		if diff := cmp.Diff([]string{"n1=old"}, contents(t, s, "nodes")); diff != "" {
			t.Errorf("a view sees what may still fail: %s", diff)
		}
		return nil
	})...)
	if diff := cmp.Diff([]string{"n1=new"}, contents(t, s, "nodes")); diff != "" {
		t.Error(diff)
	}
	must(t, s.engine.view(func(r snapshot) error {
		must(t, s.updates.update(putting("n1", "newer")))
		if diff := cmp.Diff([]string{"n1=new"}, listed(r, "nodes", "")); diff != "" {
			t.Errorf("a view is no snapshot: %s", diff)
		}
		return nil
	}))
}

func updatesSeeEachOther(t *testing.T, s *Store) {
	var seen []string
	see := func(key string) func(writer) error {
		return func(w writer) error {
			seen = append(seen, fmt.Sprint(listed(w, "nodes", "")))
			return w.put("nodes", key, []byte("1"))
		}
	}
	must(t, together(t, s.updates.update, &s.updates, see("b"), see("a"), see("c"))...)
	if diff := cmp.Diff([]string{"[]", "[b=1]", "[a=1 b=1]"}, seen); diff != "" {
		t.Error(diff)
	}
}

func failureIsItsOwn(t *testing.T, s *Store) {
	boom := errors.New("boom")
	runs := 0
	errs := together(t, s.updates.update, &s.updates, putting("n1", "1"), func(w writer) error {
		runs++
		return errors.Join(putting("n2", "2")(w), boom)
	}, putting("n3", "3"))
	if errs[0] != nil || !errors.Is(errs[1], boom) || errs[2] != nil || runs != 1 {
		t.Errorf("errors %v, the failing one ran %d times", errs, runs)
	}
	if diff := cmp.Diff([]string{"n1=1", "n3=3"}, contents(t, s, "nodes")); diff != "" {
		t.Error(diff)
	}
}

func panicIsItsOwn(t *testing.T, s *Store) {
	boom := errors.New("boom")
	errs := together(t, s.updates.update, &s.updates, func(w writer) error {
		panic(errors.Join(putting("n1", "1")(w), boom))
	}, putting("n2", "2"))
	if !errors.Is(errs[0], boom) || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
	if diff := cmp.Diff([]string{"n2=2"}, contents(t, s, "nodes")); diff != "" {
		t.Error(diff)
	}
}

func goexitIsItsOwn(t *testing.T, s *Store) {
	errs := together(t, s.updates.update, &s.updates, func(w writer) error {
		defer runtime.Goexit()
		return putting("n1", "1")(w)
	}, putting("n2", "2"))
	must(t, errs[1])
	if diff := cmp.Diff([]string{"n2=2"}, contents(t, s, "nodes")); diff != "" {
		t.Error(diff)
	}
}

func keysThatAreRefused(t *testing.T, s *Store) {
	errs := together(t, s.updates.update, &s.updates, putting("n1", "1"), putting("", "2"), putting(strings.Repeat("k", maxKey+1), "3"), putting(strings.Repeat("k", maxKey), "4"))
	if errs[0] != nil || errs[1] == nil || errs[2] == nil || errs[3] != nil {
		t.Errorf("errors %v", errs)
	}
	if got := len(contents(t, s, "nodes")); got != 2 {
		t.Errorf("%d keys, want 2", got)
	}
}

// Each adds one to a number that all read: two that ran at the same time, or twice,
// would show.
func manyAtOnce(t *testing.T, s *Store) {
	const writers, each = 16, 20
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				err := s.updates.update(func(w writer) error { return w.put("nodes", "sum", append(w.get("nodes", "sum"), '1')) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := len(contents(t, s, "nodes")[0]) - len("sum="); got != writers*each {
		t.Errorf("%d were counted, want %d", got, writers*each)
	}
}

func closedIsClosed(t *testing.T, s *Store) {
	must(t, s.updates.update(putting("n1", "1")), s.Close())
	ran := func(writer) error { t.Error("it ran"); return nil }
	if err := s.updates.update(ran); err == nil {
		t.Error("an update of a closed engine succeeded")
	}
}
