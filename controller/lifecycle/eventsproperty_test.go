package lifecycle_test

import (
	"maps"
	"strconv"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// told is what there is by the events so far, and by nothing else.
type told struct {
	since      int64
	version    string
	operations map[string]string // their states
	permits    map[string]string // their states, by volume
	nodes      map[string]*toldNode
}

type toldNode struct {
	Expected, Live, MayReenroll bool
	Generation                  int64
	Conditions                  map[string]string // status and reason
	anew                        bool              // its next report is another machine's
}

func (h *history) beginEvents() {
	list, err := h.Events.List(event.Query{Limit: 1})
	h.Must(err)
	h.byEvents = &told{since: list.Sequence, operations: map[string]string{}, permits: map[string]string{}, nodes: map[string]*toldNode{}}
}

// checkEvents holds what the events say, taken one after another, against the records. An event
// that is missing, comes twice, or in another order, does not fit the one before or the records.
func (h *history) checkEvents(t *rapid.T) {
	list, err := h.Events.List(event.Query{Since: &h.byEvents.since, Limit: 10_000})
	h.Must(err)
	for _, e := range list.Items {
		if e.Sequence <= h.byEvents.since {
			t.Fatalf("an event comes behind %d: %+v", h.byEvents.since, e)
		}
		h.byEvents.since = e.Sequence
		if wrong := h.byEvents.take(e); wrong != "" {
			t.Fatalf("%s, and it says: %+v", wrong, e)
		}
	}
	h.Must(h.Store.View(func(tx *store.Tx) error {
		h.compare(t, tx)
		return nil
	}))
}

// take takes an event in, and says what is wrong with it.
func (s *told) take(e api.Event) string {
	fits := func(what, was string) string {
		if was != e.From {
			return what + " was " + strconv.Quote(was)
		}
		return ""
	}
	switch e.Type {
	case api.HappenedDesiredStateChanged:
		was := s.version
		s.version = e.To
		return fits("the version in force", was)
	case api.HappenedOperationStarted, api.HappenedOperationEnded, api.HappenedOperationCancelled:
		was := s.operations[e.OperationID]
		s.operations[e.OperationID] = e.To
		if cancelled := e.Reason == "cancelled"; cancelled != (e.Type == api.HappenedOperationCancelled) {
			return "it was cancelled, or not"
		}
		return fits("the operation", was)
	}
	switch {
	case e.NodeID == "" && e.VolumeID == "":
		return ""
	case e.VolumeID != "":
		was := s.permits[e.VolumeID]
		s.permits[e.VolumeID] = e.To
		if was == "" && e.From == string(api.PermitNone) {
			return ""
		}
		return fits("the permit", was)
	}
	if s.nodes[e.NodeID] == nil {
		s.nodes[e.NodeID] = &toldNode{Conditions: map[string]string{}}
	}
	return s.nodes[e.NodeID].take(e)
}

func (n *toldNode) take(e api.Event) string {
	was := *n
	switch e.Type {
	case api.HappenedServerExpected, api.HappenedServerLeft:
		n.Expected = e.Type == api.HappenedServerExpected
		if n.Expected == was.Expected {
			return "nothing changes about the topology"
		}
		if n.Expected && !n.Live { // what it said is of another time
			clear(n.Conditions)
		}
	case api.HappenedEnrolled:
		n.Live, n.MayReenroll, n.anew = true, false, true
	case api.HappenedCertificateRenewed:
		if !n.Live {
			return "the node has no identity"
		}
	case api.HappenedRevoked:
		n.Live, n.MayReenroll = false, false
	case api.HappenedReenrollAllowed:
		n.Live, n.MayReenroll = false, true
		if was.MayReenroll {
			return "the node may enroll already"
		}
	case api.HappenedDocumentGiven:
		if n.Generation = e.Generation; n.Generation <= was.Generation {
			return "the document is not a later one"
		}
	case api.HappenedDocumentObserved:
		n.fresh()
	case api.HappenedConditionChanged:
		n.fresh()
		return n.condition(e)
	}
	return ""
}

// fresh forgets what another machine has said.
func (n *toldNode) fresh() {
	if n.anew {
		clear(n.Conditions)
	}
	n.anew = false
}

func (n *toldNode) condition(e api.Event) string {
	is := e.To + " " + e.Reason
	was, known := n.Conditions[e.Condition]
	n.Conditions[e.Condition] = is
	if e.To == "" {
		delete(n.Conditions, e.Condition)
	}
	if known && was == is || known != (e.From != "") || known && was[:len(e.From)] != e.From {
		return "the condition was " + strconv.Quote(was)
	}
	return ""
}

// compare holds what the events say against the records.
func (h *history) compare(t *rapid.T, tx *store.Tx) {
	instance, _, err := tx.Instances().Get(lifecycletest.InstanceID)
	h.Must(err)
	if version := strconv.FormatInt(instance.DesiredVersion, 10); h.byEvents.version != version {
		t.Fatalf("version %s is in force, by the events %s", version, h.byEvents.version)
	}
	operations, err := tx.Operations().All()
	h.Must(err)
	for _, o := range operations {
		if h.byEvents.operations[o.ID] != string(o.State) {
			t.Fatalf("operation %s is %s, by the events %q", o.ID, o.State, h.byEvents.operations[o.ID])
		}
	}
	volumes, err := tx.Volumes().All()
	h.Must(err)
	for _, v := range volumes {
		if state := h.byEvents.permits[v.ID]; state != string(v.Permit.State) && (state != "" || v.Permit.State != api.PermitNone) {
			t.Fatalf("the permit of volume %s is %s, by the events %q", v.ID, v.Permit.State, state)
		}
	}
	nodes, err := tx.Nodes().All()
	h.Must(err)
	for _, n := range nodes {
		is := toldNode{Expected: n.Expected, Live: n.Identity.Live(), MayReenroll: n.MayReenroll, Generation: n.Generation, Conditions: map[string]string{}}
		if n.Status != nil {
			for _, c := range n.Status.Conditions {
				is.Conditions[c.Type] = string(c.Status) + " " + c.Reason
			}
		}
		by := toldNode{}
		if said := h.byEvents.nodes[n.ID]; said != nil {
			by = *said
			by.anew, by.Conditions = false, maps.Clone(said.Conditions)
		}
		if diff := cmp.Diff(is, by, cmp.AllowUnexported(toldNode{})); diff != "" {
			t.Fatalf("node %s is, and by the events: %s", n.ID, diff)
		}
	}
}
