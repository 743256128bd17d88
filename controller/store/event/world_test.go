package event_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// world is a store with a log of events, and a clock.
type world struct {
	t     testing.TB
	store *store.Store
	log   *event.Log
	dir   string
	now   time.Time
}

func newWorld(t testing.TB, keep event.Retention) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.log = &event.Log{Hub: new(notify.Hub), Now: func() time.Time { return w.now }, Keep: keep, Log: slog.New(slog.DiscardHandler)}
	w.open()
	t.Cleanup(func() { w.must(w.store.Close()) })
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.store, err = storetest.Open(w.t, store.Options{Path: w.path(), Derive: w.log.Derive,
		Key: store.KeySource{File: filepath.Join(w.dir, "seal.key"), Create: true}})
	w.must(err)
	w.must(w.log.Load(w.store))
}

func (w *world) path() string { return filepath.Join(w.dir, "store.db") }

// commits differs after a commit.
func (w *world) commits() string { return storetest.Commits(w.t, w.path()) }

// restart is a kill and a new start.
func (w *world) restart() {
	w.t.Helper()
	w.must(w.store.Close())
	w.log = &event.Log{Hub: w.log.Hub, Now: w.log.Now, Keep: w.log.Keep, Log: w.log.Log}
	w.open()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// node is a node of an instance that a topology names, with a condition.
func node(instance string, n int, reason string) store.Node {
	return store.Node{ID: fmt.Sprintf("%s-%d", instance, n), InstanceID: instance, Name: fmt.Sprint("node", n), Expected: true, Generation: 1,
		Status: &api.NodeStatus{Conditions: []api.Condition{{Type: api.ConditionReady, Status: api.ConditionFalse, Reason: reason, Message: "because"}}}}
}

func (w *world) put(nodes ...store.Node) {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	w.must(w.store.Update(func(t *store.Tx) error {
		for _, n := range nodes {
			if err := t.Nodes().Put(n.ID, n); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (w *world) list(q event.Query) api.EventList {
	w.t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	list, err := w.log.List(q)
	w.must(err)
	return list
}

// records are how many there are of each instance.
func (w *world) records() map[string]int {
	w.t.Helper()
	count := map[string]int{}
	w.must(w.store.View(func(t *store.Tx) error {
		keys, err := t.Events().Keys("")
		for _, key := range keys {
			id, _, err := store.ParseEventsKey(key)
			w.must(err)
			count[id]++
		}
		return err
	}))
	return count
}

// apart puts each node in a transaction of its own. They come at the same time, and so share
// commits.
func (w *world) apart(nodes []store.Node) {
	w.t.Helper()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			if err := w.store.Update(func(t *store.Tx) error { return t.Nodes().Put(n.ID, n) }); err != nil {
				w.t.Error(err)
			}
		})
	}
	all.Wait()
}

// copied is a copy of the store's file.
func (w *world) copied() string {
	w.t.Helper()
	var lines bytes.Buffer
	w.must(w.store.View(func(t *store.Tx) error { return t.Export(&lines) }))
	path := filepath.Join(w.t.TempDir(), "copy.db")
	w.must(store.Import(path, &lines))
	return path
}

// sizeOfARecord is that of a record with one change of a condition.
func sizeOfARecord(t *testing.T) int {
	t.Helper()
	w := newWorld(t, event.Kept)
	w.put(node(one, 1, "R"))
	w.put(node(one, 1, "R100"))
	var size int
	w.must(w.store.View(func(t *store.Tx) error {
		sizes, err := t.Events().Sizes("")
		size = sizes[1].Bytes
		return err
	}))
	return size
}
