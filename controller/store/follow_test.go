package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// followingStore is that of a controller that follows the leader.
type followingStore struct {
	*Store
	// stale counts how often it was told that it is.
	stale *atomic.Int64
}

func (r replica) tryFollow(t testing.TB, ctx context.Context, d database, change ...func(*Followed)) (followingStore, error) {
	t.Helper()
	opened := followingStore{stale: &atomic.Int64{}}
	from := Followed{Feed: d.connect(t).Follow(func() { opened.stale.Add(1) }), History: newHistory(t, r.history()), Name: "etcd"}
	for _, each := range change {
		each(&from)
	}
	o := r.options()
	o.Key.Create = false
	var err error
	opened.Store, err = Follow(ctx, o, from)
	if err == nil {
		t.Cleanup(func() { _ = opened.Close() })
	}
	return opened, err
}

func (r replica) follow(t testing.TB, d database, change ...func(*Followed)) followingStore {
	t.Helper()
	opened, err := r.tryFollow(t, t.Context(), d, change...)
	must(t, err)
	opened.answers(t)
	return opened
}

// answers waits until it does.
func (d followingStore) answers(t testing.TB) {
	t.Helper()
	loopback.Until(t, "the follower answers", func() bool { return d.View(func(*Tx) error { return nil }) == nil })
}

// has waits until the follower has these nodes.
func (d followingStore) has(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	loopback.Until(t, "the follower has what the leader has committed", func() bool {
		err := d.View(func(tx *Tx) (err error) {
			got, err = tx.Nodes().Keys("")
			return err
		})
		return err == nil && slices.Equal(got, want)
	})
}

// ends waits until it cannot follow any more, and returns why.
func (d followingStore) ends(t testing.TB) error {
	t.Helper()
	loopback.Until(t, "the follower has ended", func() bool { return d.Why() != nil })
	<-d.Over()
	err := d.View(func(*Tx) error { t.Error("it answers"); return nil })
	if !isProblem(err, api.ProblemUnavailable) {
		t.Errorf("a view: %v", err)
	}
	return d.Why()
}

func TestAFollower(t *testing.T) {
	d := newDatabase(t)
	a, b := replicas(t)
	s, _ := a.open(t, d)
	update(t, s, putNode("n1"))
	f := b.follow(t, d)
	f.has(t, "n1")
	update(t, s, putNode("n2"))
	update(t, s, func(tx *Tx) error { return tx.Nodes().Delete("n1") })
	f.has(t, "n2")
	if f.Epoch() != s.Epoch() || f.KeyID() != s.KeyID() || f.Schema() != Schema() {
		t.Errorf("epoch %d, key %s, schema %d", f.Epoch(), f.KeyID(), f.Schema())
	}
	err := f.Update(func(*Tx) error { t.Error("it ran"); return nil })
	if !isProblem(err, api.ProblemUnavailable) || !errors.Is(err, ErrNotLeader) {
		t.Errorf("an update: %v", err)
	}
	// A new epoch is followed, and so is the next term.
	epoch, err := s.BeginEpoch(NewEpoch{From: Origin{RestoredAt: time.Unix(1, 0)}})
	must(t, err)
	shut(t, s)
	s, _ = a.open(t, d)
	update(t, s, putNode("n3"))
	f.has(t, "n2", "n3")
	if f.Epoch() != epoch || f.Origin() == nil {
		t.Errorf("epoch %d from %v, want %d", f.Epoch(), f.Origin(), epoch)
	}
	must(t, f.Close())
	if again := newHistory(t, b.history()); again.last.Sequence != commitsOf(s) {
		t.Errorf("it has seen commit %d", again.last.Sequence)
	}
}

// It makes no state, and no key.
func TestAFollowerWaitsForAState(t *testing.T) {
	d := newDatabase(t)
	a, b := replicas(t)
	because := make(chan string, 10)
	opened := make(chan followingStore)
	go func() {
		f, err := b.tryFollow(t, t.Context(), d, func(f *Followed) { f.Waiting = func(why string) { because <- why } })
		if err != nil {
			t.Error(err)
		}
		opened <- f
	}()
	if got := <-because; !strings.Contains(got, "no controller has made the state") {
		t.Errorf("it waits because %q", got)
	}
	if got := d.values(t); len(got) > 0 {
		t.Errorf("etcd has %v", got)
	}
	s, _ := a.open(t, d)
	update(t, s, putNode("n1"))
	(<-opened).has(t, "n1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.tryFollow(t, ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// What no controller has committed ends it, by name.
func TestAFollowerBelievesOnlyControllers(t *testing.T) {
	d := newDatabase(t)
	a, b := replicas(t)
	s, _ := a.open(t, d)
	update(t, s, putNode("n1"))
	update(t, s, putNode("n2"))
	once := d.values(t)
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n1", Node{ID: "n1", Name: "revoked"}) })
	shut(t, s)
	now := d.values(t)
	const n1, n2, headKey = "/v1/nodes/n1", "/v1/nodes/n2", "/head"
	next := strings.Replace(now[headKey], `"sequence":4`, `"sequence":5`, 1)
	for name, c := range map[string]struct {
		forged map[string]string
		says   string
	}{
		"a record alone":             {map[string]string{n1: once[n1]}, "without it"},
		"a record that was removed":  {map[string]string{n1: ""}, "without it"},
		"a head that was removed":    {map[string]string{headKey: ""}, "has changed its head"},
		"the head of then":           {map[string]string{n1: once[n1], headKey: once[headKey]}, "comes after commit 4"},
		"the next number":            {map[string]string{n1: once[n1], headKey: next}, "not those that its last commit has left"},
		"the value of another key":   {map[string]string{n1: now[n2], headKey: next}, "nodes/n1"},
		"a value of somebody's own":  {map[string]string{n1: "x", headKey: next}, "nodes/n1"},
		"a number that comes later":  {map[string]string{headKey: strings.Replace(next, `:5`, `:6`, 1)}, "commit 6 comes after commit 4"},
		"something that is no head":  {map[string]string{headKey: "x"}, "not one of nodehitch"},
		"a head with another key id": {map[string]string{headKey: strings.Replace(next, `"keyId":"`, `"keyId":"x`, 1)}, "put the right key there"},
	} {
		t.Run(name, func(t *testing.T) {
			f := b.follow(t, d)
			f.has(t, "n1", "n2")
			other := d.other(t)
			put := func(values map[string]string) {
				var all []clientv3.Op
				for key, value := range values {
					if value == "" {
						all = append(all, clientv3.OpDelete(d.prefix+key))
					} else {
						all = append(all, clientv3.OpPut(d.prefix+key, value))
					}
				}
				_, err := other.Txn(t.Context()).Then(all...).Commit()
				must(t, err)
			}
			put(c.forged)
			if why := f.ends(t); !strings.Contains(why.Error(), c.says) {
				t.Errorf("it has ended because %v", why)
			}
			put(now)
		})
	}
}

func TestAFollowerWithAnotherKeyOrSchema(t *testing.T) {
	d := newDatabase(t)
	a, b := replicas(t)
	s, _ := a.open(t, d)
	foreign := replica{newPlace(t), "c"}
	must(t, preparePath(foreign.file()))
	if _, err := foreign.tryFollow(t, t.Context(), d); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("without a key: %v", err)
	}
	_, err := createKey(foreign.key())
	must(t, err)
	if _, err := foreign.tryFollow(t, t.Context(), d); err == nil || !strings.Contains(err.Error(), "put the right key there") {
		t.Errorf("with another key: %v", err)
	}
	f := b.follow(t, d)
	must(t, s.updates.update(func(w writer) error {
		return meta{schema: Schema() + 1, epoch: s.Epoch(), keyID: s.KeyID()}.put(w)
	}))
	var wrong *SchemaError
	if why := f.ends(t); !errors.As(why, &wrong) || wrong.Found != Schema()+1 {
		t.Errorf("it has ended because %v", why)
	}
	if _, err := b.tryFollow(t, t.Context(), d); !errors.As(err, &wrong) {
		t.Errorf("a newer schema: %v", err)
	}
}

// etcd has compacted what the follower missed while it was cut off: it loads all anew, and is
// told all that has changed.
func TestAFollowerAfterACompaction(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	d, proxy := databaseOf(cluster), etcdtest.NewProxy(t, cluster.Members[0].URL)
	a, b := replicas(t)
	s, _ := a.open(t, d)
	update(t, s, putNode("n1"))
	update(t, s, putNode("n2"))
	var mu sync.Mutex
	var told []string
	f := b.follow(t, d.through(proxy), func(f *Followed) {
		f.Changed = func(tx *Tx) {
			keys, err := tx.Nodes().ChangedKeys()
			must(t, err)
			mu.Lock()
			defer mu.Unlock()
			told = append(told, keys...)
		}
	})
	proxy.Lose(etcdtest.ToEtcd, etcdtest.ToClient)
	update(t, s, putNode("n3"))
	update(t, s, func(tx *Tx) error { return tx.Nodes().Delete("n1") })
	at, err := d.other(t).Get(t.Context(), "x")
	must(t, err)
	_, err = d.other(t).Compact(t.Context(), at.Header.Revision)
	must(t, err)
	proxy.Heal()
	f.has(t, "n2", "n3")
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(told)
	if diff := cmp.Diff([]string{"n1", "n3"}, told); diff != "" {
		t.Errorf("what it was told has changed: %s", diff)
	}
}

// A revocation reaches the follower, or the follower answers nothing: whatever happens to its
// connection, its member of etcd, or that member's connections.
func TestARevocationReachesAFollowerThatAnswers(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, c *etcdtest.Cluster, p *etcdtest.Proxy) (mend func()){
		"nothing arrives from etcd": func(_ *testing.T, _ *etcdtest.Cluster, p *etcdtest.Proxy) func() {
			p.Lose(etcdtest.ToClient)
			return p.Heal
		},
		"nothing arrives at etcd": func(_ *testing.T, _ *etcdtest.Cluster, p *etcdtest.Proxy) func() {
			p.Lose(etcdtest.ToEtcd)
			return p.Heal
		},
		"its member is frozen": func(_ *testing.T, c *etcdtest.Cluster, _ *etcdtest.Proxy) func() {
			c.Members[0].Freeze()
			return c.Members[0].Thaw
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := etcdtest.Open(t, 3)
			proxy := etcdtest.NewProxy(t, cluster.Members[0].URL)
			leaders := database{endpoints: cluster.Endpoints()[1:], prefix: "/nodehitch", ttl: testTTL}
			a, b := replicas(t)
			s, _ := a.open(t, leaders)
			update(t, s, putNode("n1"))
			f := b.follow(t, leaders.through(proxy))
			f.has(t, "n1")
			mend := harm(t, cluster, proxy)
			revoke := func() error { return s.Update(func(tx *Tx) error { return tx.Nodes().Delete("n1") }) }
			if revoke() != nil { // the frozen member was the leader: the next term does it
				_ = s.Close()
				s, _ = a.open(t, leaders)
				must(t, revoke())
			}
			revoked := time.Now()
			loopback.Until(t, "the follower is stale", func() bool {
				began := time.Now()
				trusted := false
				answered := f.View(func(tx *Tx) (err error) {
					_, trusted, err = tx.Nodes().Get("n1")
					return err
				})
				if answered == nil && trusted && began.Sub(revoked) > 3*time.Second {
					t.Fatal("it answers what was revoked three seconds ago")
				}
				return answered != nil && isProblem(answered, api.ProblemUnavailable) && errors.Is(answered, etcd.ErrBehind)
			})
			loopback.Until(t, "it is told that it is stale", func() bool { return f.stale.Load() == 1 })
			mend()
			f.has(t)
		})
	}
}

// A member without its quorum goes on to answer a watch.
func TestAFollowerAtAMemberWithoutItsQuorum(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 3)
	d := databaseOf(cluster)
	a, b := replicas(t)
	s, _ := a.open(t, d)
	update(t, s, putNode("n1"))
	d.endpoints = d.endpoints[:1]
	f := b.follow(t, d)
	for _, m := range cluster.Members[1:] {
		m.Freeze()
	}
	loopback.Until(t, "the follower is stale", func() bool { return errors.Is(f.View(func(*Tx) error { return nil }), etcd.ErrBehind) })
	for _, m := range cluster.Members[1:] {
		m.Thaw()
	}
	f.answers(t)
	f.has(t, "n1")
}

// etcd is put back to an earlier state while it is followed.
func TestEtcdIsPutBackUnderAFollower(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	d, member := databaseOf(cluster), cluster.Members[0]
	a, b := replicas(t)
	s, _ := a.open(t, d)
	then := saved(t, member)
	shut(t, s)
	s, _ = a.open(t, d)
	update(t, s, putNode("n1"))
	f := b.follow(t, d)
	f.has(t, "n1")
	putBack(t, member, then)
	if why := f.ends(t); !errors.Is(why, etcd.ErrOtherHistory) {
		t.Errorf("it has ended because %v", why)
	}
	_, err := b.tryFollow(t, t.Context(), d)
	var wrong *HistoryError
	if !errors.As(err, &wrong) {
		t.Errorf("it can be followed again: %v", err)
	}
}

// A follower's views are states that the leader has committed, in their order, and never half
// of one.
func TestViewsOfAFollowerAreCommits(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 3)
	d := databaseOf(cluster)
	a, b := replicas(t)
	s, _ := a.open(t, d)
	proxy := etcdtest.NewProxy(t, cluster.Members[0].URL)
	f := b.follow(t, d.through(proxy))
	const commits = 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range commits {
			err := s.Update(func(tx *Tx) error {
				name := fmt.Sprintf("%06d", i)
				return errors.Join(tx.Nodes().Put("one", Node{ID: "one", Name: name}), tx.Nodes().Put("other", Node{ID: "other", Name: name}))
			})
			if err != nil {
				t.Error(err)
			}
			if i%100 == 50 { // the stream breaks
				proxy.Lose(etcdtest.ToClient)
				proxy.Heal()
			}
		}
	}()
	last, views := "", 0
	for last != fmt.Sprintf("%06d", commits-1) {
		err := f.View(func(tx *Tx) error {
			one, _, err := tx.Nodes().Get("one")
			must(t, err)
			other, _, err := tx.Nodes().Get("other")
			must(t, err)
			if one.Name != other.Name || one.Name < last {
				t.Fatalf("it has %q and %q after %q", one.Name, other.Name, last)
			}
			if one.Name != last {
				views++
			}
			last = one.Name
			return nil
		})
		if err != nil && f.Why() != nil {
			t.Fatal(f.Why())
		}
	}
	<-done
	if views < 10 {
		t.Errorf("only %d states were seen", views)
	}
	t.Logf("%d of %d states were seen", views, commits)
}

// What a commit costs a follower.
func BenchmarkFollowedCommit(b *testing.B) {
	k := &keys{id: "k"}
	signer := k.signer()
	sets := make([]writeSet, 2)
	for i := range sets {
		sets[i] = writeSet{"nodes": {}}
		for n := range 4 {
			sets[i]["nodes"][fmt.Sprint("n", n)] = []byte(strings.Repeat(fmt.Sprint(i), 1500))
		}
	}
	b.ReportAllocs()
	before, _ := signer.sign(emptyRecords(), writeSet{"nodes": {}})
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		after, changes := signer.sign(before, sets[i%2])
		said, err := parseHead(signer.head(after))
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if before, err = signer.follow(before, said, changes); err != nil {
			b.Fatal(err)
		}
	}
}

// mirrored is the leader's engine, but its views are those of a follower that holds as much.
type mirrored struct {
	*shared
	f *follower
}

func (m mirrored) view(fn func(snapshot) error) error {
	for m.f.committed.Load() == nil || m.f.committed.Load().sequence < m.shared.committed.Load().sequence || m.f.check() != nil {
		runtime.Gosched()
	}
	return m.f.view(fn)
}

// What views of the leader give, views of a follower give.
func TestAFollowerIsAnEngineForViews(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	conformance(t, func(t *testing.T) *Store {
		d.prefix = "/" + filepath.Base(t.Name())
		s := d.store(t)
		e := s.engine.(*shared)
		f := &follower{ending: newEnding(), store: &Store{keys: &keys{id: e.signer.keyID}}, signer: e.signer,
			from: Followed{Feed: d.connect(t).Follow(nil), History: newHistory(t, filepath.Join(t.TempDir(), "history.json"))}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { // run without what the meta bucket says: the tests have their own there
			for {
				head, changes, anew, err := f.from.Feed.Next(ctx)
				if ctx.Err() != nil {
					return
				}
				after, takeErr := f.take(f.committed.Load(), head, changes, anew)
				if err := errors.Join(err, takeErr); err != nil {
					t.Error(err)
					return
				}
				f.committed.Store(after)
			}
		})
		t.Cleanup(func() {
			cancel()
			running.Wait()
			_ = f.from.Feed.Close()
		})
		s.engine = mirrored{e, f}
		return s
	})
}
