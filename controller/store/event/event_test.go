package event_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	one = "11111111-0000-4000-8000-000000000001"
	two = "22222222-0000-4000-8000-000000000002"
)

// Whatever a transaction changes, it writes one record for each instance.
func TestATransactionHasOneRecordForEachInstance(t *testing.T) {
	w := newWorld(t, event.Kept)
	var nodes []store.Node
	for n := range 100 {
		nodes = append(nodes, node(one, n, "Converging"), node(two, n, "Converging"))
	}
	w.put(nodes...)
	if diff := cmp.Diff(map[string]int{one: 1, two: 1}, w.records()); diff != "" {
		t.Error(diff)
	}
	list := w.list(event.Query{InstanceID: one}).Items
	if len(list) != 300 { // expected, given a document, and Ready False
		t.Errorf("%d events", len(list))
	}
	for i, e := range list {
		if i > 0 && e.Sequence <= list[i-1].Sequence || e.VnfInstanceID != one || e.By != "controller" {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
	w.put(nodes...)
	changed := nodes[0]
	changed.Addresses, changed.Withheld = []string{"10.0.0.1"}, []api.Withheld{{Section: "storage"}}
	w.put(changed)
	if diff := cmp.Diff(map[string]int{one: 1, two: 1}, w.records()); diff != "" {
		t.Errorf("what is no event was recorded: %s", diff)
	}
}

func TestWhatWasRolledBackHasNotHappened(t *testing.T) {
	w := newWorld(t, event.Kept)
	failed := errors.New("it failed")
	if err := w.store.Update(func(t *store.Tx) error {
		_ = t.Nodes().Put("n", node(one, 1, "Converging"))
		return failed
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if n := len(w.list(event.Query{}).Items); n != 0 {
		t.Errorf("%d events", n)
	}
	w.put(node(one, 1, "Converging"))
	if n := len(w.list(event.Query{}).Items); n != 3 {
		t.Errorf("%d events", n)
	}
}

func TestWhoAndWhy(t *testing.T) {
	w := newWorld(t, event.Kept)
	w.put(node(one, 1, "Converging"))
	since := w.list(event.Query{}).Sequence
	n := node(one, 1, "ForeignData")
	n.Status.Conditions[0].Message = strings.Repeat("é", 400)
	ctx := event.Context(context.Background(), func() string { return "token alice" })
	w.now = w.now.Add(time.Second)
	w.must(w.store.Update(func(t *store.Tx) error {
		t.By(event.Caller(ctx))
		return t.Nodes().Put(n.ID, n)
	}))
	list := w.list(event.Query{Since: &since})
	want := []api.Event{{Sequence: list.Sequence, At: w.now, By: "token alice", Type: api.HappenedConditionChanged, VnfInstanceID: one, NodeID: n.ID, NodeName: "node1",
		Condition: "Ready", From: "False", To: "False", Reason: "ForeignData", Message: strings.Repeat("é", 148) + "…"}}
	if diff := cmp.Diff(want, list.Items); diff != "" {
		t.Error(diff)
	}
}

// A client that reads on from what it was told last sees each event once, in order, wherever
// its pages end, over restarts and a clock that goes back.
func TestEachEventIsReadOnce(t *testing.T) {
	w := newWorld(t, event.Kept)
	w.put(node(one, 0, "Converging"))
	since := w.list(event.Query{}).Sequence
	for n := range 12 {
		w.put(node(one, n, fmt.Sprint("R", n)), node(two, n, fmt.Sprint("R", n)))
		if n == 6 {
			w.now = w.now.Add(-time.Hour)
			w.restart()
		}
	}
	var got []string
	for {
		list := w.list(event.Query{Since: &since, Limit: 4})
		for _, e := range list.Items {
			if e.Sequence <= since {
				t.Fatalf("%+v comes after %d", e, since)
			}
			since = e.Sequence
			got = append(got, fmt.Sprint(e.NodeID, " ", e.Type))
		}
		if len(list.Items) == 0 {
			break
		}
		if since = list.Sequence; list.Sequence < since {
			t.Fatalf("it continues at %d", list.Sequence)
		}
	}
	var want []string
	for n := range 12 {
		for _, id := range []string{one, two} {
			if n > 0 || id == two {
				want = append(want, fmt.Sprintf("%s-%d ServerExpected", id, n), fmt.Sprintf("%s-%d DocumentGiven", id, n))
			}
			want = append(want, fmt.Sprintf("%s-%d ConditionChanged", id, n))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	newest := w.list(event.Query{NodeID: one + "-3", Limit: 2}).Items
	if len(newest) != 2 || newest[0].Type != api.HappenedDocumentGiven || newest[1].Reason != "R3" {
		t.Errorf("the newest of a node are %+v", newest)
	}
	fits := func(e api.Event) bool { return e.NodeID == one+"-3" }
	if diff := cmp.Diff(newest, w.list(event.Query{Fits: fits, Limit: 2}).Items); diff != "" {
		t.Errorf("the newest of those that fit: %s", diff)
	}
}

// What is kept is bounded, and nobody who has missed something is not told.
func TestWhatIsNoLongerKept(t *testing.T) {
	size := sizeOfARecord(t)
	w := newWorld(t, event.Retention{Age: time.Hour, Each: 5*size + size/2, All: 8*size + size/2})
	w.put(node(one, 1, "R"))
	early := w.list(event.Query{}).Sequence
	for n := range 250 { // more than one transaction deletes
		w.put(node(one, 1, fmt.Sprint("R", n)))
	}
	w.put(node(two, 1, "R"))
	late := w.list(event.Query{}).Sequence
	w.must(w.log.Sweep(context.Background()))
	if diff := cmp.Diff(map[string]int{one: 5, two: 1}, w.records()); diff != "" {
		t.Error(diff)
	}
	check := func(when string) {
		t.Helper()
		_, err := w.log.List(event.Query{Since: &early, Limit: 1})
		var gone *api.Problem
		if !errors.As(err, &gone) || gone.Type != api.ProblemEventsPruned || gone.Status != 410 {
			t.Errorf("%s: what is gone is answered with %v", when, err)
		}
		if list := w.list(event.Query{Since: &late}); len(list.Items) != 0 || list.Sequence < late {
			t.Errorf("%s: after the last one there is %+v", when, list)
		}
		if list := w.list(event.Query{Since: &early, InstanceID: two}); len(list.Items) != 3 {
			t.Errorf("%s: of an instance whose events are all there: %+v", when, list)
		}
	}
	check("swept")
	w.restart()
	check("after a restart")
	for n := range 10 {
		w.put(node(two, 1, fmt.Sprint("R", n)))
		w.must(w.log.Sweep(context.Background()))
	}
	if r := w.records(); r[one] > 5 || r[two] > 5 || r[one]+r[two] > 8 {
		t.Errorf("%v are kept", r)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.must(w.log.Sweep(context.Background()))
	if diff := cmp.Diff(map[string]int{}, w.records()); diff != "" {
		t.Errorf("too old: %s", diff)
	}
	if _, err := w.log.List(event.Query{Since: &late, Limit: 1}); err == nil {
		t.Error("nobody is told that everything is gone")
	}
	before := w.commits()
	w.must(w.log.Sweep(context.Background()))
	if w.commits() != before {
		t.Error("a sweep without anything to delete writes")
	}
}

// A node that says all that a node may say, for as long as it likes, takes the room of what nodes
// have said, and none of what operators and the controller did.
func TestWhatANodeSaysPushesNothingElseOut(t *testing.T) {
	size := sizeOfARecord(t)
	w := newWorld(t, event.Retention{Age: time.Hour, Each: 60 * size, All: 80 * size})
	says := func(n store.Node) {
		w.now = w.now.Add(time.Second)
		w.must(w.store.Update(func(t *store.Tx) error {
			t.By("node " + n.ID)
			return t.Nodes().Put(n.ID, n)
		}))
	}
	n := node(one, 1, "R")
	w.put(n)
	n.Identity = &store.Identity{Serial: "1", EnrolledAt: w.now}
	says(n) // it enrolls
	revoked := node(one, 2, "R")
	revoked.Identity = &store.Identity{Serial: "2", EnrolledAt: w.now, RevokedAt: &w.now, RevokedReason: "stolen"}
	w.put(revoked)
	seen := w.list(event.Query{}).Sequence
	for i := range 1000 {
		n.Status = &api.NodeStatus{ObservedGeneration: int64(i + 1), Facts: api.Facts{BootID: fmt.Sprint(i), AgentVersion: fmt.Sprint(i)},
			Conditions: []api.Condition{{Type: fmt.Sprint("C", i), Status: api.ConditionFalse, Reason: fmt.Sprint("R", i), Message: "?"}}}
		n.Identity = &store.Identity{Serial: fmt.Sprint(i), EnrolledAt: n.Identity.EnrolledAt}
		n.Generation++
		says(n)
		w.must(w.store.Update(func(t *store.Tx) error { // it calls no more, and again
			for _, what := range []api.EventType{api.HappenedNodeLost, api.HappenedNodeBack} {
				t.Tell(one, store.Event{Type: what, NodeID: n.ID, NodeName: n.Name})
			}
			return nil
		}))
		if i%100 == 99 {
			w.must(w.log.Sweep(context.Background()))
		}
	}
	did := map[api.EventType]int{}
	check := func(when string) {
		t.Helper()
		clear(did)
		words := 0
		for _, e := range w.list(event.Query{InstanceID: one, Limit: 10_000}).Items {
			did[e.Type]++
			if strings.HasPrefix(e.By, "node ") && e.Type != api.HappenedEnrolled {
				words++
			}
		}
		if did[api.HappenedEnrolled] != 1 || did[api.HappenedRevoked] != 1 || did[api.HappenedServerExpected] != 2 || words < 20 {
			t.Errorf("%s: %v are listed, %d of them said by the node", when, did, words)
		}
		for _, kind := range []api.EventType{api.HappenedEnrolled, api.HappenedRevoked, api.HappenedRebooted, api.HappenedNodeLost} { // however much is newer
			if list := w.list(event.Query{InstanceID: one, Type: kind, Limit: 1}).Items; len(list) != 1 || list[0].Type != kind {
				t.Errorf("%s: of the type %s there is %+v", when, kind, list)
			}
		}
		if _, err := w.log.List(event.Query{Since: &seen, Limit: 1}); err == nil {
			t.Errorf("%s: nobody is told that something is gone", when)
		}
	}
	check("swept")
	w.restart()
	check("after a restart")
	bytes := 0
	w.must(w.store.View(func(t *store.Tx) error {
		sizes, err := t.Events().Sizes("")
		for _, s := range sizes {
			bytes += s.Bytes
		}
		return err
	}))
	if bytes > 60*size {
		t.Errorf("%d bytes are kept, expected at most %d", bytes, 60*size)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.must(w.log.Sweep(context.Background()))
	if diff := cmp.Diff(map[string]int{}, w.records()); diff != "" {
		t.Errorf("too old: %s", diff)
	}
}

// What 10,000 reports with a transition add to the store, each in a transaction of its own.
func TestTheShareOfEventsInTheStore(t *testing.T) {
	const nodes, transitions = 50, 10_000
	w := newWorld(t, event.Kept)
	for n := 0; n < transitions; n += nodes {
		var changed []store.Node
		for i := range nodes {
			changed = append(changed, node(one, i, fmt.Sprint("Reason", n%3)))
		}
		w.apart(changed)
	}
	pages := map[string]int{}
	db, err := bbolt.Open(w.copied(), 0o600, nil)
	w.must(err)
	w.must(db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			s := b.Stats()
			pages[string(name)] = s.LeafAlloc + s.BranchAlloc
			return nil
		})
	}))
	w.must(db.Close())
	each := pages["events"] / transitions
	t.Logf("the events of %d transitions take %d KiB of the store, %d bytes each; all other records %d KiB", transitions, pages["events"]>>10, each, pages["nodes"]>>10)
	if each < 100 || each > 1000 {
		t.Errorf("a transition takes %d bytes of the store", each)
	}
}

// Members of a cluster that are upgraded are named, from the beginning of their turn to its end.
func TestTheWavesOfMembersAreTold(t *testing.T) {
	w := newWorld(t, event.Kept)
	w.put(node(one, 1, "R"), node(one, 2, "R"))
	put := func(wave ...string) {
		t.Helper()
		w.must(w.store.Update(func(t *store.Tx) error {
			return t.Instances().Put(one, store.Instance{ID: one, CarriedOver: store.CarriedOver{Wave: wave}})
		}))
	}
	put()
	put(one + "-1")
	put(one+"-1", one+"-2")
	put(one+"-1", one+"-2")
	put()
	var told []string
	for _, e := range w.list(event.Query{InstanceID: one}).Items {
		if e.Type == api.HappenedKubernetesWave {
			told = append(told, e.From+" > "+e.To)
		}
	}
	if diff := cmp.Diff([]string{" > node1", "node1 > node1, node2", "node1, node2 > "}, told); diff != "" {
		t.Error(diff)
	}
}
