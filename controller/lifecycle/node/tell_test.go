package node_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// fleet is a controller with nodes of two instances, which have identities.
type fleet struct {
	*controllertest.Controller
	t     *testing.T
	ids   []string
	since int64
}

func newFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	f := &fleet{Controller: controllertest.New(t, controllertest.Options{}), t: t}
	epoch := f.Store.Epoch()
	for first := 0; first < nodes; first += 500 { // an etcd does not take all at once
		f.must(f.Store.Update(func(tx *store.Tx) error {
			for n := first; n < min(first+500, nodes); n++ {
				id := fmt.Sprintf("%08d-0000-4000-8000-000000000001", n)
				f.ids = append(f.ids, id)
				if err := tx.Nodes().Put(id, store.Node{ID: id, InstanceID: fmt.Sprintf("%08d-0000-4000-8000-000000000002", n%2), Name: fmt.Sprint("n", n),
					Role: api.RoleWorker, Epoch: epoch, Identity: &store.Identity{Serial: "1", EnrolledAt: f.Clock.Now()}}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	f.restart()
	return f
}

// restart is a kill and a new start.
func (f *fleet) restart() {
	f.t.Helper()
	f.Open()
	f.must(f.Lifecycle.Nodes.Start())
	f.happened()
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// call has the first of the nodes call.
func (f *fleet) call(nodes int) {
	for _, id := range f.ids[:nodes] {
		f.Lifecycle.Nodes.Seen(id)
	}
}

// pass lets time pass, and sweeps every second.
func (f *fleet) pass(d time.Duration) {
	f.t.Helper()
	for range d / time.Second {
		f.Clock.Advance(time.Second)
		f.must(f.Lifecycle.Nodes.Sweep(context.Background()))
	}
}

// happened counts the events since the last call, and has the last one of each type.
func (f *fleet) happened() (types map[api.EventType]int, last map[api.EventType]api.Event) {
	f.t.Helper()
	q := event.Query{Limit: 10_000}
	if f.since != 0 {
		q.Since = &f.since
	}
	list, err := f.Events.List(q)
	f.must(err)
	types, last = map[api.EventType]int{}, map[api.EventType]api.Event{}
	for _, e := range list.Items {
		types[e.Type]++
		last[e.Type] = e
	}
	f.since = list.Sequence
	return types, last
}

// expect wants exactly these events since the last call.
func (f *fleet) expect(when string, want map[api.EventType]int) (last map[api.EventType]api.Event) {
	f.t.Helper()
	got, last := f.happened()
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s: %s", when, diff)
	}
	return last
}

// records is how many records of events there are.
func (f *fleet) records() (count int) {
	f.t.Helper()
	f.must(f.Store.View(func(tx *store.Tx) error {
		keys, err := tx.Events().Keys("")
		count = len(keys)
		return err
	}))
	return count
}

var none = map[api.EventType]int{}

// lost is how long it takes until a silent node is lost, and a second.
func (f *fleet) lost() time.Duration { return f.Lifecycle.Nodes.Presence.PollInterval*3 + time.Second }

func TestANodeThatIsLostAndIsBackIsToldOnceEach(t *testing.T) {
	f := newFleet(t, 2)
	f.call(2)
	f.pass(f.lost() - time.Second)
	f.expect("silent for three poll intervals", none)
	f.call(1)
	f.pass(time.Second)
	e := f.expect("longer", map[api.EventType]int{api.HappenedNodeLost: 1})[api.HappenedNodeLost]
	if e.NodeID != f.ids[1] || e.NodeName != "n1" || e.VnfInstanceID != "00000001-0000-4000-8000-000000000002" || e.By != "controller" || e.Message != "no call for "+f.lost().String() {
		t.Errorf("the loss is %+v", e)
	}
	before := f.Content()
	f.call(1)
	f.pass(f.lost() - time.Second)
	f.expect("still silent", none)
	if !bytes.Equal(before, f.Content()) {
		t.Error("sweeps without news write")
	}
	f.call(2)
	f.pass(time.Second)
	if e := f.expect("it calls", map[api.EventType]int{api.HappenedNodeBack: 1})[api.HappenedNodeBack]; e.NodeID != f.ids[1] || e.Message != "no call for "+(2*f.lost()-time.Second).String() {
		t.Errorf("it is back as %+v", e)
	}
}

// A node that comes and goes is told once in ten minutes, its return only with its loss. What is
// told last is what is so: a loss is told later if the node stays away.
func TestANodeThatComesAndGoesIsToldOnceInTenMinutes(t *testing.T) {
	f := newFleet(t, 1)
	var all time.Duration
	for range 3 {
		f.call(1)
		f.pass(f.lost())
		all += f.lost()
	}
	f.call(1)
	f.pass(10 * time.Second)
	f.expect(all.String(), map[api.EventType]int{api.HappenedNodeLost: 1, api.HappenedNodeBack: 1})
	f.pass(f.lost())
	f.expect("lost once more", none)
	f.pass(10 * time.Minute)
	f.expect("for ten minutes", map[api.EventType]int{api.HappenedNodeLost: 1})
	f.call(1)
	f.pass(10 * time.Second)
	f.expect("back", map[api.EventType]int{api.HappenedNodeBack: 1})
	f.call(1)
	f.pass(10 * time.Minute)
	f.call(1)
	f.pass(10 * time.Second)
	f.expect("ten minutes later", map[api.EventType]int{api.HappenedNodeLost: 1, api.HappenedNodeBack: 1})
}

// An outage of a fleet costs one transaction in ten seconds, which names 50 nodes of each kind.
func TestAnOutageOfAFleetIsBounded(t *testing.T) {
	const nodes = 2000
	f := newFleet(t, nodes)
	f.call(nodes)
	written := f.records()
	f.pass(f.lost())
	e := f.expect("all are lost", map[api.EventType]int{api.HappenedNodeLost: 50, api.HappenedNodesLost: 1})[api.HappenedNodesLost]
	if e.VnfInstanceID != "" || e.Message != "1950 nodes besides the 50 that have an event of their own" {
		t.Errorf("the others are counted as %+v", e)
	}
	if got := f.records() - written; got != 3 { // both instances', and the one of none
		t.Errorf("%d records, want 3", got)
	}
	// All come back within 20 seconds, 100 a second.
	written = f.records()
	for n := 0; n < nodes; n += 100 {
		for _, id := range f.ids[n : n+100] {
			f.Lifecycle.Nodes.Seen(id)
		}
		f.pass(time.Second)
	}
	f.pass(10 * time.Second)
	f.expect("all are back", map[api.EventType]int{api.HappenedNodeBack: 2 * 50, api.HappenedNodesBack: 2})
	if got := f.records() - written; got != 6 {
		t.Errorf("%d records, want 6", got)
	}
}

// Presence is in memory: a controller that starts anew tells once more that a node is lost.
func TestALossIsToldAgainAfterARestart(t *testing.T) {
	f := newFleet(t, 1)
	f.call(1)
	f.pass(f.lost())
	f.expect("lost", map[api.EventType]int{api.HappenedNodeLost: 1})
	f.restart()
	f.pass(f.lost())
	f.expect("lost after a restart", map[api.EventType]int{api.HappenedNodeLost: 1})
}

func TestAServerWithoutAnIdentityIsNotLost(t *testing.T) {
	f := newFleet(t, 1)
	f.must(f.Store.Update(func(tx *store.Tx) error {
		n, _, err := tx.Nodes().Get(f.ids[0])
		now := f.Clock.Now()
		n.Identity = &store.Identity{Serial: "1", EnrolledAt: n.Identity.EnrolledAt, RevokedAt: &now}
		if err != nil {
			return err
		}
		return tx.Nodes().Put(n.ID, n)
	}))
	f.expect("revoked", map[api.EventType]int{api.HappenedRevoked: 1})
	f.pass(f.lost() + 20*time.Second)
	f.expect("and silent", none)
}
