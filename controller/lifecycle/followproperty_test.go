package lifecycle_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// follower is a controller that follows the one of a history.
type follower struct {
	*store.Store
	hub     notify.Hub
	commits atomic.Int64
	nodes   atomic.Int64 // commits that have changed records of nodes
	// lastToken is the last token that Changed was told of.
	lastToken atomic.Value
	marks     int // tokens that catchUp has made
	// waits are those at the leader and here, by key, and known how many commits there were
	// when they began.
	waits             map[string][2]wait
	known, knownNodes int64
}

type wait struct {
	woken <-chan struct{}
	stop  func()
}

func (w wait) over() bool {
	select {
	case <-w.woken:
		return true
	default:
		return false
	}
}

// keys are all that a client could wait for.
func (f *follower) keys(h *history) []string {
	keys := []string{notify.Instances, notify.Operations, notify.Nodes, notify.Events, notify.Volumes, notify.Tokens, lifecycletest.InstanceID, lifecycletest.Volume}
	for _, s := range pool {
		keys = append(keys, s.ID)
	}
	for _, op := range h.Operations() {
		keys = append(keys, op.ID, fmt.Sprintf("%s/%d", lifecycletest.InstanceID, op.Sequence+1))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (f *follower) begin(h *history) {
	f.waits = map[string][2]wait{}
	for _, key := range f.keys(h) {
		leader, stop := h.Hub.Watch(key)
		here, stopHere := f.hub.Watch(key)
		f.waits[key] = [2]wait{{leader, stop}, {here, stopHere}}
	}
}

// catchUp waits until all that the leader has committed was told here.
func (f *follower) catchUp(h *history) {
	f.marks++ // a token of one name at a time
	last, err := h.Tokens.Create(h.Ctx, api.TokenRequest{Name: fmt.Sprint("last", f.marks), Scope: api.ScopeViewer})
	h.Must(err)
	for found := false; !found; {
		changed, stop := f.hub.Watch(last.Token.ID)
		err := f.View(func(t *store.Tx) (err error) {
			_, found, err = t.Tokens().Get(last.Token.ID)
			return err
		})
		if err != nil && f.Why() != nil {
			h.Fatalf("the follower has ended: %v", f.Why())
		}
		if !found {
			select {
			case <-changed:
			case <-time.After(10 * time.Millisecond): // it was stale
			}
		}
		stop()
	}
	for f.lastToken.Load() != last.Token.ID { // views see a commit before it is told
		runtime.Gosched()
	}
}

type wakes struct{ needed, extra, memory int }

// compare wants who waits here to be woken as well as who waits at the leader.
func (f *follower) compare(t *rapid.T, h *history, count *wakes) {
	f.catchUp(h)
	commits := f.commits.Load() - f.known - 1 // one is the last token's
	ofNodes := f.nodes.Load() - f.knownNodes
	for key, w := range f.waits {
		leader, here := w[0].over(), w[1].over()
		switch {
		case leader && here:
			count.needed++
		case here:
			count.extra++
		case leader && key == notify.Nodes && ofNodes == 0:
			count.memory++ // the presence of a node
		case leader && commits == 0 && (key == notify.Instances || key == lifecycletest.InstanceID):
			count.memory++ // an observation of a stack
		case leader && commits == 0 && (key == notify.Volumes || key == lifecycletest.Volume):
			count.memory++ // an operator's word, given again in the same instant: the record is the same
		case leader:
			t.Fatalf("%d commits have woken %q at the leader, and not here", commits, key)
		}
		w[0].stop()
		w[1].stop()
	}
}

// A commit that wakes a client at the leader wakes the same client at a controller that follows.
func TestAFollowerWakesWhomTheLeaderWakes(t *testing.T) {
	endpoints := etcdtest.Open(t, 1, "--max-txn-ops=1024").Endpoints()
	connect := func(prefix string) *etcd.Client {
		return etcd.New(etcd.Options{Endpoints: endpoints, Prefix: prefix, Name: "test", TTL: time.Minute})
	}
	var count wakes
	var n int
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		n++
		prefix := fmt.Sprintf("/p%d", n)
		client := connect(prefix)
		rt.Cleanup(func() { _ = client.Close() })
		history := func(name string) *store.History {
			h, err := store.OpenHistory(filepath.Join(dir, name+".json"))
			if err != nil {
				rt.Fatal(err)
			}
			return h
		}
		var term *etcd.Term
		h := newHistory(rt, dir, rapid.SampledFrom([]string{noMembers, hasMembers}).Draw(rt, "cluster"), func() *store.Shared {
			if term, err = client.Campaign(context.Background(), nil); err != nil {
				rt.Fatal(err)
			}
			return &store.Shared{Term: term, History: history("leader"), Name: "etcd"}
		})
		h.Keep(tx.Kept)
		h.SharedCommit = func() string {
			_, revision := term.Position()
			return fmt.Sprint(revision)
		}
		f := &follower{}
		from := connect(prefix)
		rt.Cleanup(func() { _ = from.Close() })
		var once sync.Once
		f.Store, err = store.Follow(context.Background(), store.Options{Key: store.KeySource{File: h.Config.SealKeyFile}}, store.Followed{
			Feed: from.Follow(f.hub.All), History: history("follower"), Name: "etcd",
			Changed: func(records *store.Tx) {
				keys, all, err := tx.Woken(records)
				if err != nil {
					once.Do(func() { t.Error(err) })
				}
				if all {
					f.hub.All()
				}
				f.hub.Changed(keys...)
				f.commits.Add(1)
				if nodes, _ := records.Nodes().ChangedKeys(); len(nodes) > 0 {
					f.nodes.Add(1)
				}
				if tokens, _ := records.Tokens().ChangedKeys(); len(tokens) > 0 {
					f.lastToken.Store(tokens[0])
				}
			},
		})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = f.Close() })
		events := h.events()
		events[""] = func(rt *rapid.T) {
			if f.waits != nil {
				f.compare(rt, h, &count)
			}
			h.after(rt)
			f.catchUp(h)
			f.known, f.knownNodes = f.commits.Load(), f.nodes.Load()
			f.begin(h)
		}
		rt.Repeat(events)
	})
	t.Logf("wakes: %d of the leader's, %d more; %d of the leader's memory", count.needed, count.extra, count.memory)
	if count.needed == 0 {
		t.Error("nobody was woken")
	}
}
