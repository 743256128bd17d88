package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// database is a real etcd, or a way to it.
type database struct {
	endpoints []string
	prefix    string
	ttl       time.Duration
}

func newDatabase(t *testing.T, flags ...string) database {
	return databaseOf(etcdtest.Open(t, 1, flags...))
}

func databaseOf(c *etcdtest.Cluster) database {
	return database{endpoints: c.Endpoints(), prefix: "/nodehitch", ttl: testTTL}
}

// through is the way over a proxy.
func (d database) through(p *etcdtest.Proxy) database {
	d.endpoints = []string{p.URL}
	return d
}

// testTTL is short, so that a test need not wait for long.
const testTTL = 5 * time.Second

func (d database) connect(t testing.TB) *etcd.Client {
	t.Helper()
	c := etcd.New(etcd.Options{Endpoints: d.endpoints, Prefix: d.prefix, Name: "test", TTL: d.ttl})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (d database) term(t testing.TB) *etcd.Term {
	t.Helper()
	term, err := d.connect(t).Campaign(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = term.Close() })
	return term
}

// other is a client of etcd that is no controller.
func (d database) other(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: d.endpoints, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// values are all that is in etcd under the prefix.
func (d database) values(t testing.TB) map[string]string {
	t.Helper()
	found, err := d.other(t).Get(t.Context(), d.prefix+"/", clientv3.WithPrefix())
	must(t, err)
	all := map[string]string{}
	for _, kv := range found.Kvs {
		all[strings.TrimPrefix(string(kv.Key), d.prefix)] = string(kv.Value)
	}
	return all
}

// replica is a controller: it has the key of all, and a disk of its own.
type replica struct {
	place
	name string
}

func (r replica) history() string { return filepath.Join(r.dir, "seen-by-"+r.name+".json") }

// try opens the store in a new term.
func (r replica) try(t testing.TB, d database, change ...func(*Shared)) (*Store, *etcd.Term, error) {
	t.Helper()
	term := d.term(t)
	h, err := OpenHistory(r.history())
	must(t, err)
	o := r.options()
	o.Path, o.Shared = "", &Shared{Term: term, History: h, Name: "etcd"}
	for _, each := range change {
		each(o.Shared)
	}
	s, err := Open(o)
	return s, term, err
}

func (r replica) open(t testing.TB, d database) (*Store, *etcd.Term) {
	t.Helper()
	s, term, err := r.try(t, d)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() }) // closed already, as a rule
	return s, term
}

// replicas are two controllers of one state.
func replicas(t *testing.T) (a, b replica) {
	p := newPlace(t)
	must(t, preparePath(p.file()))
	return replica{p, "a"}, replica{p, "b"}
}

func isProblem(err error, kind string) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == kind
}

func newHistory(t testing.TB, path string) *History {
	t.Helper()
	h, err := OpenHistory(path)
	must(t, err)
	return h
}

func TestSharedIsAnEngine(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	conformance(t, func(t *testing.T) *Store {
		d.prefix = "/" + filepath.Base(t.Name())
		return d.store(t)
	})
}

// store has no buckets.
func (d database) store(t *testing.T) *Store {
	t.Helper()
	s := newStore(Options{})
	must(t, s.openShared(Options{Key: KeySource{File: filepath.Join(t.TempDir(), "key"), Create: true},
		Shared: &Shared{Term: d.term(t), History: newHistory(t, filepath.Join(t.TempDir(), "history.json")), Name: "etcd"}}))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func puttingMany(name string, n int) func(writer) error {
	return func(w writer) error {
		for i := range n {
			if err := w.put("nodes", fmt.Sprintf("%s%d", name, i), []byte(name)); err != nil {
				return err
			}
		}
		return nil
	}
}

// An etcd that takes little: what comes together goes out in as few commits as it fits in.
func TestUpdatesThatDoNotFitIntoOneCommit(t *testing.T) {
	s := newDatabase(t, "--max-txn-ops=8").store(t) // one of them is the head's
	must(t, s.updates.update(func(w writer) error { w.create("nodes"); return nil }))
	before := commitsOf(s)
	var saw []string
	errs := together(t, s.updates.update, &s.updates, puttingMany("a", 3), puttingMany("b", 4), func(w writer) error {
		saw = listed(w, "nodes", "b")
		return puttingMany("c", 1)(w)
	}, puttingMany("d", 8), puttingMany("e", 6))
	for i, err := range errs {
		if tooLarge := isProblem(err, api.ProblemTooLarge); tooLarge != (i == 3) || !tooLarge && err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	if diff := cmp.Diff([]string{"b0=b", "b1=b", "b2=b", "b3=b"}, saw); diff != "" {
		t.Errorf("an update does not see the one before it: %s", diff)
	}
	if n := commitsOf(s) - before; n != 2 {
		t.Errorf("%d commits, want 2: a and b, c and e", n)
	}
	if got := len(contents(t, s, "nodes")); got != 3+4+1+6 {
		t.Errorf("%d records, want 14: none of the one that is too large", got)
	}
}

// The one that did not fit into a commit that failed has seen what is not there.
func TestAFailedCommitFailsTheUpdateThatComesNext(t *testing.T) {
	s := newDatabase(t, "--max-txn-ops=4").store(t)
	must(t, s.updates.update(func(w writer) error { w.create("nodes"); return nil }))
	s.updates.limits.changes = 5 // as if etcd had been started again with less
	errs := together(t, s.updates.update, &s.updates, puttingMany("a", 4), puttingMany("b", 2), puttingMany("c", 1))
	for i, err := range errs {
		if failed := isProblem(err, api.ProblemUnavailable); failed != (i < 2) || !failed && err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	if diff := cmp.Diff([]string{"c0=c"}, contents(t, s, "nodes")); diff != "" {
		t.Error(diff)
	}
}

// A client that may write etcd need not have the seal key.
func TestOnlyControllersWriteRecords(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	r, _ := replicas(t)
	s, _ := r.open(t, d)
	update(t, s, putNode("n1"))
	update(t, s, putNode("n2"))
	once := d.values(t)
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n1", Node{ID: "n1", Name: "revoked"}) })
	shut(t, s)
	now := d.values(t)
	forgery := string(summed("nodes", "n1", []byte(`{"id":"n1"}`))) // anyone can make a checksum
	const n1, n2, headKey = "/v1/nodes/n1", "/v1/nodes/n2", "/head"
	for name, forged := range map[string]map[string]string{
		"a value of somebody's own": {n1: forgery + now[n1][len(now[n1])-macSize:]},
		"cut off":                   {n1: "x"},
		"the value of another key":  {n1: now[n2]},
		"a value that was there":    {n1: once[n1]},
		"and the head of then":      {n1: once[n1], headKey: once[headKey]},
		"removed":                   {n1: ""},
		"without its head":          {headKey: ""},
		"a head of another epoch":   {headKey: strings.Replace(now[headKey], `"epoch":1`, `"epoch":9`, 1)},
		"a head of another number":  {headKey: strings.Replace(now[headKey], `"sequence":4`, `"sequence":5`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			other := d.other(t)
			for key, value := range forged {
				if value == now[key] {
					t.Fatalf("%s is as it was", key)
				}
				var err error
				if value == "" {
					_, err = other.Delete(t.Context(), d.prefix+key)
				} else {
					_, err = other.Put(t.Context(), d.prefix+key, value)
				}
				must(t, err)
			}
			if s, _, err := r.try(t, d); err == nil {
				shut(t, s)
				t.Error("the store was opened")
			} else {
				t.Log(err)
			}
			for key := range forged {
				_, err := other.Put(t.Context(), d.prefix+key, now[key])
				must(t, err)
			}
			s, _ := r.open(t, d)
			shut(t, s)
		})
	}
}

func TestAKeyThatIsNotTheStores(t *testing.T) {
	d := newDatabase(t)
	r, _ := replicas(t)
	s, _ := r.open(t, d)
	shut(t, s)
	foreign := replica{newPlace(t), "c"}
	must(t, preparePath(foreign.file()))
	if _, _, err := foreign.try(t, d); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("without a key: %v", err)
	}
	_, err := createKey(foreign.key())
	must(t, err)
	if _, _, err := foreign.try(t, d); err == nil || !strings.Contains(err.Error(), "put the right key there") {
		t.Errorf("with another key: %v", err)
	}
	other := d
	other.prefix = "/else"
	_, err = d.other(t).Put(t.Context(), other.prefix+"/v1/x/y", "something")
	must(t, err)
	if _, _, err := r.try(t, other); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a prefix that others use: %v", err)
	}
}

// Two first starts at the same time make one state.
func TestTwoFirstStarts(t *testing.T) {
	d := newDatabase(t)
	a, b := replicas(t)
	epochs := make(chan int64, 2)
	for _, each := range []replica{a, b} {
		go func() {
			s, _, err := each.try(t, d)
			if err != nil {
				t.Error(err)
				epochs <- 0
				return
			}
			epochs <- s.Epoch()
			_ = s.Close()
		}()
	}
	if one, other := <-epochs, <-epochs; one != other {
		t.Errorf("epochs %d and %d", one, other)
	}
	if n := strings.Count(d.values(t)["/head"], `"sequence":1,`); n != 1 {
		t.Errorf("the state was created more than once: %s", d.values(t)["/head"])
	}
}

func TestTheSameValueIsNotWrittenTwice(t *testing.T) {
	d := newDatabase(t)
	r, _ := replicas(t)
	s, _ := r.open(t, d)
	update(t, s, putNode("n1"))
	before := d.values(t)["/head"]
	update(t, s, putNode("n1"))
	if after := d.values(t)["/head"]; after != before {
		t.Errorf("a commit was made: %s after %s", after, before)
	}
}

// slowTerm is one whose answer to a commit takes until release is closed.
type slowTerm struct {
	*etcd.Term
	made, release chan struct{}
}

func (t slowTerm) Commit(head []byte, changes map[string][]byte) error {
	err := t.Term.Commit(head, changes)
	close(t.made)
	<-t.release
	return err
}

// openSlow opens the store in a slow term, and begins to put n1. It returns once etcd has that.
func (r replica) openSlow(t *testing.T) (s *Store, release func(), done <-chan error) {
	t.Helper()
	d := newDatabase(t)
	first, _ := r.open(t, d)
	shut(t, first)
	slow := slowTerm{made: make(chan struct{}), release: make(chan struct{})}
	s, _, err := r.try(t, d, func(o *Shared) { slow.Term = o.Term.(*etcd.Term); o.Term = slow })
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	put := make(chan error, 1)
	go func() { put <- s.Update(putNode("n1")) }()
	<-slow.made
	return s, func() { close(slow.release) }, put
}

// After AwaitCommit a store has what etcd has told others before.
func TestACommitIsSeenElsewhereFirst(t *testing.T) {
	a, _ := replicas(t)
	s, release, done := a.openSlow(t)
	if found := nodeIDs(t, s); len(found) > 0 {
		t.Errorf("%v before etcd has answered", found)
	}
	time.AfterFunc(100*time.Millisecond, release) // while AwaitCommit waits
	s.AwaitCommit()
	if found := nodeIDs(t, s); len(found) != 1 {
		t.Errorf("%v are there, expected n1", found)
	}
	must(t, <-done)
}

// Close lets a commit end that is on its way, and writes down that this controller has seen it.
func TestCloseWaitsForTheCommit(t *testing.T) {
	a, _ := replicas(t)
	s, release, done := a.openSlow(t)
	time.AfterFunc(100*time.Millisecond, release) // while Close waits
	shut(t, s)
	seen := newHistory(t, a.history()).last.Sequence
	must(t, <-done)
	if last := commitsOf(s); seen != last {
		t.Errorf("the disk has commit %d, and the last one is %d", seen, last)
	}
}
