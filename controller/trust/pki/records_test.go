package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
)

// state is what controllers open one after the other.
type state struct {
	t testing.TB
	// open is what a controller does that becomes the leader.
	open func() *store.Store
	// bytes are all that lies outside of the controllers.
	bytes func() []byte
}

func states(t *testing.T, test func(t *testing.T, s state)) {
	t.Run("bbolt", func(t *testing.T) { test(t, inFile(t)) })
	t.Run("etcd", func(t *testing.T) { test(t, inEtcd(t)) })
}

func (s state) opened(o store.Options) *store.Store {
	s.t.Helper()
	opened, err := store.Open(o)
	s.must(err)
	s.t.Cleanup(func() { _ = opened.Close() }) // closed already, as a rule
	return opened
}

func (s state) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func inFile(t testing.TB) state {
	dir := t.TempDir()
	path := filepath.Join(dir, "state", "store.db")
	s := state{t: t}
	s.open = func() *store.Store {
		t.Helper()
		return s.opened(store.Options{Path: path, Key: store.KeySource{File: filepath.Join(dir, "key"), Create: true}})
	}
	s.bytes = func() []byte {
		content, err := os.ReadFile(path)
		s.must(err)
		return content
	}
	return s
}

func inEtcd(t testing.TB) state {
	endpoints := etcdtest.Open(t, 1).Endpoints()
	dir := t.TempDir()
	s := state{t: t}
	s.open = func() *store.Store {
		t.Helper()
		c := etcd.New(etcd.Options{Endpoints: endpoints, Prefix: "/nodehitch", Name: "test", TTL: 10 * time.Second, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = c.Close() })
		term, err := c.Campaign(t.Context(), nil)
		s.must(err)
		seen, err := store.OpenHistory(filepath.Join(dir, "seen.json"))
		s.must(err)
		return s.opened(store.Options{Shared: &store.Shared{Term: term, History: seen, Name: "etcd"},
			Key: store.KeySource{File: filepath.Join(dir, "key"), Create: true}})
	}
	s.bytes = func() (all []byte) {
		c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
		s.must(err)
		defer func() { _ = c.Close() }()
		found, err := c.Get(t.Context(), "\x00", clientv3.WithFromKey())
		s.must(err)
		for _, kv := range found.Kvs {
			all = append(append(all, kv.Key...), kv.Value...)
		}
		return all
	}
	return s
}

// replica is a controller with a disk of its own.
type replica struct {
	dir  string
	name string
	now  time.Time
}

func newReplica(t testing.TB, name string) *replica {
	return &replica{dir: filepath.Join(t.TempDir(), "pki"), name: name, now: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}
}

func (r *replica) options(s *store.Store) Options {
	return Options{Dir: r.dir, Store: s, Names: []string{r.name}, Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler)}
}

func (r *replica) load(t testing.TB, s *store.Store, change ...func(*Options)) *world {
	t.Helper()
	o := r.options(s)
	for _, each := range change {
		each(&o)
	}
	a, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, dir: r.dir, Authority: a}
}

func readOnly(o *Options) { o.ReadOnly = true }

// kept are the names of what is stored, those with a key marked.
func kept(t testing.TB, s storage) (names []string) {
	t.Helper()
	found, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	mark := map[bool]string{true: " with its key"}
	if found.root != nil {
		names = append(names, rootFile+mark[found.root.key != nil])
	}
	for _, p := range found.intermediates {
		names = append(names, intermediateFile(p.cert)+mark[p.key != nil])
	}
	return names
}

func (r *replica) files(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// wantServer checks that the listener's certificate is for the name and signed under the root.
func (w *world) wantServer(name, rootPEM string, at time.Time) {
	w.t.Helper()
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(rootPEM))
	cert := w.ServerCertificate()
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			w.t.Fatal(err)
		}
		intermediates.AddCert(c)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates, CurrentTime: at}); err != nil {
		w.t.Error(err)
	}
}

func (w *world) accepts(chain []*x509.Certificate, at time.Time) bool {
	_, _, err := w.VerifyNode(chain, at, true)
	return err == nil
}

func TestTwoFirstStartsMakeOneAuthority(t *testing.T) {
	t.Parallel()
	states(t, func(t *testing.T, s state) {
		a, b := newReplica(t, "a.example"), newReplica(t, "b.example")
		at := s.open()
		first := a.load(t, at)
		node, _ := first.enrolled(nodeID)
		serial := first.ServerCertificate().Leaf.SerialNumber
		s.must(at.Close())

		at = s.open()
		second := b.load(t, at)
		if second.Pin() != first.Pin() || second.RootPEM() != first.RootPEM() {
			t.Errorf("two roots: %s and %s", first.Pin(), second.Pin())
		}
		if !second.accepts(node, b.now) {
			t.Error("a node of the first is none of the second")
		}
		first.wantServer("a.example", second.RootPEM(), a.now)
		second.wantServer("b.example", first.RootPEM(), b.now)
		if publicKeysEqual(first.server.cert.PublicKey, second.server.cert.PublicKey) {
			t.Error("both have one server key")
		}
		for _, r := range []*replica{a, b} {
			if diff := cmp.Diff([]string{serverFile}, r.files(t)); diff != "" {
				t.Errorf("on the disk of %s: %s", r.name, diff)
			}
		}
		if n := len(kept(t, records{at})); n != 2 {
			t.Errorf("%d pairs are stored, want the root and one intermediate", n)
		}
		s.must(at.Close())
		if again := a.load(t, s.open()); again.ServerCertificate().Leaf.SerialNumber.Cmp(serial) != 0 {
			t.Error("the server certificate was replaced by a restart")
		}
	})
}

// blind reads nothing.
type blind struct{ storage }

func (blind) read() (pairs, error) { return pairs{}, nil }

func TestARootInTheStoreIsNotReplaced(t *testing.T) {
	states(t, func(t *testing.T, s state) {
		at := s.open()
		newReplica(t, "a.example").load(t, at)
		before := kept(t, records{at})
		b := newReplica(t, "b.example")
		_, err := load(b.options(at), blind{records{at}}, inRecords)
		wantError(t, err, "another "+rootFile, "start the controller again")
		if diff := cmp.Diff(before, kept(t, records{at})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAMissingRecordOfTheRootIsNotMadeAnew(t *testing.T) {
	at, r := inFile(t).open(), newReplica(t, "a.example")
	o := r.options(at)
	o.RootExists = true
	_, err := Load(o)
	wantError(t, err, rootFile+" is missing in the store", "restore a backup")
	if names := kept(t, records{at}); len(names) != 0 {
		t.Errorf("it made %q", names)
	}
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made (%v)", err)
	}
}

// A server certificate on the disk shows that there was an authority.
func TestAnEmptyStoreBesideAServerCertificate(t *testing.T) {
	s, r := inFile(t), newReplica(t, "a.example")
	at := s.open()
	r.load(t, at)
	s.must(at.Close())
	other := inFile(t).open()
	_, err := Load(r.options(other))
	wantError(t, err, rootFile+" is missing", "restore it")
	if names := kept(t, records{other}); len(names) != 0 {
		t.Errorf("it made %q", names)
	}
}

// interrupted calls stop before and after each change of the storage.
type interrupted struct {
	storage
	n    int
	stop func(n int, done bool) error
}

func (i *interrupted) write(name string, p *pair) error {
	return i.step(func() error { return i.storage.write(name, p) })
}

func (i *interrupted) remove(name string) error {
	return i.step(func() error { return i.storage.remove(name) })
}

func (i *interrupted) step(change func() error) error {
	i.n++
	if err := i.stop(i.n, false); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return i.stop(i.n, true)
}

var errKilled = errors.New("killed")

// killedAt runs what changes the storage and ends it as a kill does: nothing of it runs any
// more, not what follows an error either.
func killedAt(n int, done bool, run func(stop func(int, bool) error) error) (killed bool, err error) {
	defer func() {
		p := recover()
		if fault, ok := p.(error); ok && errors.Is(fault, errKilled) {
			killed = true
		} else if p != nil {
			panic(p)
		}
	}()
	return false, run(func(at int, isDone bool) error {
		if at == n && isDone == done {
			panic(errKilled)
		}
		return nil
	})
}

// eachKill calls try with each moment at which run can be killed, until run is not killed
// any more, and returns how many there were.
func eachKill(t testing.TB, try func(n int, done bool) (killed bool)) (kills int) {
	t.Helper()
	for n := 1; ; n++ {
		for _, done := range []bool{false, true} {
			if !try(n, done) {
				return kills
			}
			if kills++; kills > 50 {
				t.Fatal("there is no end")
			}
		}
	}
}

// bench is a storage over restarts.
type bench struct {
	// open is what a controller does that begins; it ends with the test at the latest.
	open func(t testing.TB) (s storage, closed func())
	// empty removes all that is in it.
	empty func()
}

func benches(t *testing.T, test func(t *testing.T, b bench)) {
	t.Run("directory", func(t *testing.T) {
		dir := directory(filepath.Join(t.TempDir(), "pki"))
		test(t, bench{
			open: func(testing.TB) (storage, func()) { return dir, func() {} },
			empty: func() {
				if err := os.RemoveAll(string(dir)); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
	states(t, func(t *testing.T, s state) {
		b := bench{open: func(t testing.TB) (storage, func()) {
			at := s.open()
			closed := sync.OnceFunc(func() { s.must(at.Close()) })
			t.Cleanup(closed)
			return records{at}, closed
		}}
		b.empty = func() {
			at, closed := b.open(t)
			s.must(forgetAll(at.(records).store))
			closed()
		}
		test(t, b)
	})
}

// forgetAll deletes the records.
func forgetAll(s *store.Store) error {
	return s.Update(func(tx *store.Tx) error {
		names, err := tx.Authority().Keys("")
		for _, name := range names {
			err = errors.Join(err, tx.Authority().Delete(name))
		}
		return err
	})
}

// killing is a life of an authority whose end is killed.
type killing struct {
	// before are steps of the clock with a start after each; last is the one that is killed.
	before []time.Duration
	last   time.Duration
	kills  int
	// keys tells whether the root and then the intermediates have a key in the end.
	keys []bool
}

// A leader that is killed anywhere leaves what the next one goes on with.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	const half = intermediateLife/2 + day
	cases := map[string]killing{
		"the first start":          {nil, 0, 4, []bool{true, true}},
		"a rotation":               {[]time.Duration{0}, half, 4, []bool{true, false, true}},
		"a rotation that forgets":  {[]time.Duration{0, half}, half + 40*day, 6, []bool{true, false, true}},
		"nothing to do":            {[]time.Duration{0}, day, 0, []bool{true, true}},
		"a start after many years": {[]time.Duration{0}, 3 * intermediateLife, 4, []bool{true, true}},
	}
	benches(t, func(t *testing.T, b bench) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				kills := eachKill(t, func(n int, done bool) bool {
					b.empty()
					killed, fault := c.try(t, b, n, done)
					if fault != "" {
						t.Errorf("killed at change %d (done: %t): %s", n, done, fault)
					}
					return killed
				})
				if kills != c.kills {
					t.Errorf("it was killed at %d moments, want %d", kills, c.kills)
				}
			})
		}
	})
}

func (c killing) try(t *testing.T, b bench, n int, done bool) (killed bool, fault string) {
	r := newReplica(t, "a.example")
	var pin string
	var node []*x509.Certificate
	for _, d := range c.before {
		r.now = r.now.Add(d)
		w, _, closed := r.on(t, b)
		pin = w.Pin()
		node, _ = w.enrolled(nodeID)
		closed()
	}
	r.now = r.now.Add(c.last)
	at, closed := b.open(t)
	killed, err := killedAt(n, done, func(stop func(int, bool) error) error {
		_, err := load(r.benchOptions(at), &interrupted{storage: at, stop: stop}, "here")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pin == "" {
		if found, err := at.read(); err == nil && found.root != nil {
			pin = (&Authority{pairs: found}).Pin()
		}
	}
	closed()

	w, at, closed := r.on(t, b)
	defer closed()
	found, err := at.read()
	if err != nil {
		t.Fatal(err)
	}
	keys := []bool{found.root.key != nil}
	for _, p := range found.intermediates {
		keys = append(keys, p.key != nil)
	}
	fresh, _ := w.enrolled(nodeID)
	switch {
	case pin != "" && w.Pin() != pin:
		fault = "another root"
	case node != nil && c.last < intermediateLife && !w.accepts(node, node[0].NotAfter):
		fault = "a node is unknown"
	case !w.accepts(fresh, r.now):
		fault = "a new node is unknown"
	default:
		fault = cmp.Diff(c.keys, keys)
	}
	return killed, fault
}

// on starts the replica.
func (r *replica) on(t testing.TB, b bench) (w *world, at storage, closed func()) {
	t.Helper()
	at, closed = b.open(t)
	a, err := load(r.benchOptions(at), at, "here")
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, Authority: a}, at, closed
}

// benchOptions keep the server certificate beside what is tested.
func (r *replica) benchOptions(at storage) Options {
	o := r.options(nil)
	if d, alone := at.(directory); alone {
		o.Dir = string(d)
	}
	return o
}

// An error in the middle of forgetting leaves nothing that the next rotation cannot forget.
func TestForgettingGoesOnAfterAnError(t *testing.T) {
	benches(t, func(t *testing.T, b bench) {
		r := newReplica(t, "a.example")
		at, closed := b.open(t)
		defer closed()
		failing := &interrupted{storage: at, stop: func(int, bool) error { return nil }}
		a, err := load(r.benchOptions(at), failing, "here")
		for _, d := range []time.Duration{intermediateLife/2 + day, intermediateLife/2 + 40*day} {
			if err != nil {
				t.Fatal(err)
			}
			r.now = r.now.Add(d)
			failing.n = 0
			failing.stop = func(n int, _ bool) error {
				if n == 3 { // of the second: one was made, one was deleted, one loses its key
					return errKilled
				}
				return nil
			}
			err = a.Rotate()
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("the third change did not fail: %v", err)
		}
		failing.stop = func(int, bool) error { return nil }
		if err := a.Rotate(); err != nil {
			t.Error(err)
		}
		if n := len(kept(t, at)); n != 3 {
			t.Errorf("%d pairs are stored, want the root and two intermediates: %q", n, kept(t, at))
		}
	})
}

func TestNoKeyIsStoredInTheClear(t *testing.T) {
	states(t, func(t *testing.T, s state) {
		r, at := newReplica(t, "a.example"), s.open()
		w := r.load(t, at)
		secrets := map[string][]byte{}
		for _, p := range []*pair{w.root, w.issuer(), w.server} {
			der, err := x509.MarshalPKCS8PrivateKey(p.key)
			s.must(err)
			name := p.cert.Subject.CommonName
			secrets[name+", PKCS #8"] = der
			secrets[name+", the end of it"] = der[len(der)-40:]
			text := pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der})
			for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
				secrets[fmt.Sprintf("%s, PEM line %d", name, i)] = line
			}
		}
		s.must(at.Close())
		all := s.bytes()
		if !bytes.Contains(all, []byte(intermediateFile(w.issuer().cert))) {
			t.Error("the records are not there at all")
		}
		for what, secret := range secrets {
			for how, text := range encodings(secret) {
				if bytes.Contains(all, text) {
					t.Errorf("%s: it is there (%s)", what, how)
				}
			}
		}
	})
}

// encodings are what can be found of plain in JSON: itself, and its inside in each alignment
// that it may have in base64.
func encodings(plain []byte) map[string][]byte {
	all := map[string][]byte{"raw": plain}
	for before := range 3 {
		inside := plain[(3-before)%3:]
		all[fmt.Sprintf("base64 behind %d bytes", before)] = []byte(base64.StdEncoding.EncodeToString(inside[:len(inside)/3*3]))
	}
	return all
}

func TestAReaderMakesNothing(t *testing.T) {
	t.Parallel()
	states(t, func(t *testing.T, s state) {
		at, follower, leader := s.open(), newReplica(t, "follower.example"), newReplica(t, "leader.example")
		o := follower.options(at)
		o.ReadOnly = true
		_, err := Load(o)
		wantError(t, err, "not complete yet", "the leader")
		killed, _ := killedAt(2, false, func(stop func(int, bool) error) error {
			_, err := load(leader.options(at), &interrupted{storage: records{at}, stop: stop}, inRecords)
			return err
		})
		before := kept(t, records{at})
		if !killed || len(before) != 1 {
			t.Fatalf("want the root alone, found %q", before)
		}
		_, err = Load(o)
		wantError(t, err, "not complete yet")
		if diff := cmp.Diff(before, kept(t, records{at})); diff != "" {
			t.Errorf("the reader changed records: %s", diff)
		}

		main := leader.load(t, at)
		w := follower.load(t, at, readOnly)
		w.wantServer("follower.example", main.RootPEM(), follower.now)
		node, _ := main.enrolled(nodeID)
		if !w.accepts(node, follower.now) {
			t.Error("a node is unknown to the reader")
		}
		before, stored := kept(t, records{at}), s.bytes()
		first := w.ServerCertificate().Leaf
		for range 8 { // until after half of the intermediate's life
			follower.now = follower.now.Add(61 * day)
			s.must(w.Rotate())
		}
		if w.ServerCertificate().Leaf.Equal(first) {
			t.Error("the reader's own certificate was not replaced")
		}
		w.wantServer("follower.example", main.RootPEM(), follower.now)
		if diff := cmp.Diff(before, kept(t, records{at})); diff != "" || !bytes.Equal(stored, s.bytes()) {
			t.Errorf("the reader changed records: %s", diff)
		}
		if diff := cmp.Diff([]string{serverFile}, follower.files(t)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAReaderFollowsARotation(t *testing.T) {
	t.Parallel()
	states(t, func(t *testing.T, s state) {
		at, follower, leader := s.open(), newReplica(t, "follower.example"), newReplica(t, "leader.example")
		main := leader.load(t, at)
		w := follower.load(t, at, readOnly)
		old, _ := main.enrolled(nodeID)
		for _, r := range []*replica{follower, leader} {
			r.now = r.now.Add(intermediateLife/2 + day)
		}
		s.must(main.Rotate())
		fresh, _ := main.enrolled(nodeID)
		if w.accepts(fresh, follower.now) {
			t.Fatal("the certificate is not of a new intermediate")
		}
		s.must(w.Reload())
		if !w.accepts(fresh, follower.now) || !w.accepts(old, old[0].NotAfter) {
			t.Error("a node is unknown after a rotation")
		}
		if !w.server.issuer.Equal(fresh[1]) {
			t.Error("the server certificate was due and is not signed by the new intermediate")
		}
		if w.intermediates[0].key != nil {
			t.Error("the key of the old intermediate is still in the reader's memory")
		}

		s.must(forgetAll(at))
		wantError(t, w.Reload(), "not the one with which this controller was started")
		newReplica(t, "c.example").load(t, at)
		wantError(t, w.Reload(), "not the one with which this controller was started")
		if !w.accepts(fresh, follower.now) {
			t.Error("the certificates that were in use are in use no more")
		}
	})
}

func TestAnAuthorityMovesIntoAStoreAndBack(t *testing.T) {
	t.Parallel()
	states(t, func(t *testing.T, s state) {
		alone := newWorld(t)
		alone.pass(intermediateLife/2 + day)
		node, _ := alone.enrolled(nodeID)
		before := kept(t, directory(alone.dir))
		at := s.open()
		for range 2 { // one that was killed is called again
			s.must(CopyToStore(alone.dir, at))
			if diff := cmp.Diff(before, kept(t, records{at})); diff != "" {
				t.Fatal(diff)
			}
		}
		r := newReplica(t, "a.example")
		r.now = alone.now
		w := r.load(t, at, func(o *Options) { o.RootExists = true })
		if w.Pin() != alone.Pin() || !w.accepts(node, r.now) {
			t.Error("another authority than in the directory")
		}
		r.now = r.now.Add(intermediateLife/2 + day)
		s.must(w.Rotate())
		later, _ := w.enrolled(nodeID)
		before = kept(t, records{at})

		target := filepath.Join(t.TempDir(), "pki")
		for range 2 {
			s.must(MoveToDirectory(at, target))
			if diff := cmp.Diff(before, kept(t, directory(target))); diff != "" {
				t.Fatal(diff)
			}
			if left := kept(t, records{at}); len(left) != 0 {
				t.Errorf("the records are still there: %q", left)
			}
		}
		back := newReplica(t, "a.example")
		back.dir, back.now = target, r.now
		w = back.load(t, nil, func(o *Options) { o.RootExists = true })
		if w.Pin() != alone.Pin() || !w.accepts(node, node[0].NotAfter) || !w.accepts(later, back.now) {
			t.Error("another authority than in the store")
		}

		// A directory that was left behind gets what it lacks: the root's key, and what was
		// made since.
		s.must((&pair{cert: alone.root.cert}).write(filepath.Join(alone.dir, rootFile)))
		s.must(CopyToStore(target, at))
		s.must(MoveToDirectory(at, alone.dir))
		back.dir = alone.dir
		w = back.load(t, nil)
		if diff := cmp.Diff(before, kept(t, directory(alone.dir))); diff != "" || !w.accepts(later, back.now) {
			t.Errorf("the directory of before: %s", diff)
		}
	})
}

func TestAMoveIsKilled(t *testing.T) {
	t.Parallel()
	source := newWorld(t)
	source.pass(intermediateLife/2 + day)
	want := kept(t, directory(source.dir))
	found, err := directory(source.dir).read()
	if err != nil {
		t.Fatal(err)
	}
	benches(t, func(t *testing.T, b bench) {
		kills := eachKill(t, func(n int, done bool) bool {
			b.empty()
			at, closed := b.open(t)
			defer closed()
			if d, alone := at.(directory); alone {
				if err := prepareDir(string(d)); err != nil {
					t.Fatal(err)
				}
			}
			killed, err := killedAt(n, done, func(stop func(int, bool) error) error {
				return add(found, &interrupted{storage: at, stop: stop}, "here")
			})
			if err := errors.Join(err, add(found, at, "here")); err != nil {
				t.Fatalf("killed at change %d (done: %t): %v", n, done, err)
			}
			if diff := cmp.Diff(want, kept(t, at)); diff != "" {
				t.Errorf("killed at change %d (done: %t): %s", n, done, diff)
			}
			return killed
		})
		if kills != 6 {
			t.Errorf("it was killed at %d moments, want before and after each of 3 pairs", kills)
		}
	})
}

func TestMovesThatAreRefused(t *testing.T) {
	t.Parallel()
	states(t, func(t *testing.T, s state) {
		at, r := s.open(), newReplica(t, "a.example")
		r.load(t, at)
		inStore := kept(t, records{at})
		for name, c := range map[string]struct {
			damage func(w *world) error
			move   func(w *world) error
			says   []string
		}{
			"into a store with another root":     {nil, func(w *world) error { return CopyToStore(w.dir, at) }, []string{"the store has another root", "nothing has been changed"}},
			"into a directory with another root": {nil, func(w *world) error { return MoveToDirectory(at, w.dir) }, []string{"the directory has another root", "nothing has been changed"}},
			"a directory without a root": {func(w *world) error { return os.RemoveAll(w.dir) },
				func(w *world) error { return CopyToStore(w.dir, at) }, []string{"no such file"}},
			"a directory that lost its root": {func(w *world) error { return os.Remove(filepath.Join(w.dir, rootFile)) },
				func(w *world) error { return CopyToStore(w.dir, at) }, []string{rootFile + " is missing"}},
			"a root without its key": {func(w *world) error { return (&pair{cert: w.root.cert}).write(filepath.Join(w.dir, rootFile)) },
				func(w *world) error { return CopyToStore(w.dir, at) }, []string{rootFile, "no private key", "put it back"}},
			"parts that do not belong together": {func(w *world) error { return w.issuerOf(newWorld(t)) },
				func(w *world) error { return CopyToStore(w.dir, at) }, []string{"not signed by", "restore the directory"}},
			"into parts that do not belong together": {func(w *world) error { return w.issuerOf(newWorld(t)) },
				func(w *world) error { return MoveToDirectory(at, w.dir) }, []string{"not signed by", "restore the directory"}},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				if c.damage != nil {
					if err := c.damage(w); err != nil {
						t.Fatal(err)
					}
				}
				before := digests(t, w.dir)
				wantError(t, c.move(w), c.says...)
				if diff := cmp.Diff(inStore, kept(t, records{at})); diff != "" {
					t.Errorf("the store: %s", diff)
				}
				if diff := cmp.Diff(before, digests(t, w.dir)); diff != "" {
					t.Errorf("the directory: %s", diff)
				}
			})
		}
	})
}

// issuerOf puts the other's intermediate into the directory.
func (w *world) issuerOf(other *world) error {
	p := other.issuer()
	return p.write(filepath.Join(w.dir, intermediateFile(p.cert)))
}

func digests(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(content)
	}
	return all
}
