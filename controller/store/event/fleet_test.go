package event_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// told is what the events since then say, each in a line.
func (w *world) told(since *int64) (lines []string) {
	w.t.Helper()
	list := w.list(event.Query{Since: since})
	for _, e := range list.Items {
		if e.VnfInstanceID == "" {
			lines = append(lines, fmt.Sprintf("%s %s %s [%s>%s] %s", e.Type, e.TokenName, e.NodeID, e.From, e.To, e.Message))
		}
	}
	*since = list.Sequence
	return lines
}

// happens wants that the change has these events, in one record.
func (w *world) happens(change func(t *store.Tx) error, want ...string) {
	w.t.Helper()
	since, before := w.list(event.Query{}).Sequence, w.records()[""]
	w.now = w.now.Add(time.Second)
	w.must(w.store.Update(change))
	if diff := cmp.Diff(want, w.told(&since)); diff != "" {
		w.t.Error(diff)
	}
	if got, most := w.records()[""]-before, min(1, len(want)); got != most {
		w.t.Errorf("%d records, want %d", got, most)
	}
}

func TestTheLifeOfATokenIsTold(t *testing.T) {
	w := newWorld(t, event.Kept)
	expires := w.now.Add(time.Hour)
	token := store.Token{Token: api.Token{ID: "0123", Name: "alice", Scope: api.ScopeViewer, ExpiresAt: &expires}, MAC: []byte("secret"), Epoch: 1}
	put := func(t *store.Tx) error { return t.Tokens().Put(token.ID, token) }
	w.happens(put, "TokenCreated alice  [>] scope viewer, until 2026-01-02T04:04:05Z")
	w.happens(put)
	token.Epoch = 2
	w.happens(put, "TokenConfirmed alice  [>] ")
	token.Expired = true
	w.happens(put, "TokenExpired alice  [>] on 2026-01-02T04:04:05Z")
	token.RevokedAt, token.MAC = &expires, nil
	w.happens(put, "TokenRevoked alice  [>] ")
	w.happens(put)
	token.ID = "4567" // as a restore takes one over that the backup does not know
	w.happens(put, "TokenRevoked alice  [>] ")
	last := w.list(event.Query{}).Items
	if e := last[len(last)-1]; e.TokenID != "4567" {
		t.Errorf("the last one is %+v", e)
	}
}

func TestAnUpgradeOfAgentsIsTold(t *testing.T) {
	w := newWorld(t, event.Kept)
	w.put(node(one, 1, "R"), node(one, 2, "R"))
	r := store.AgentRollout{Version: "v1.0.0"}
	put := func(nodes ...int) func(t *store.Tx) error {
		return func(t *store.Tx) error {
			for _, n := range nodes {
				told := node(one, n, "R")
				told.AgentOffer = &store.AgentOffer{WantedAgent: api.WantedAgent{Version: r.Version}, Wave: r.Wave, At: w.now}
				if err := t.Nodes().Put(told.ID, told); err != nil {
					return err
				}
			}
			over, older := node(one, 3, "R"), node(one, 4, "R")
			over.AgentOffer = &store.AgentOffer{Wave: r.Wave, At: w.now, OverAt: w.now}
			older.AgentOffer = &store.AgentOffer{Wave: r.Wave - 1, At: w.now}
			if err := errors.Join(t.Nodes().Put(over.ID, over), t.Nodes().Put(older.ID, older)); err != nil {
				return err
			}
			return t.PutAgentRollout(r)
		}
	}
	w.must(w.store.Update(put()))
	r = store.AgentRollout{Version: "v1.1.0", StartedAt: w.now, StartedBy: "token alice", Wave: 1}
	w.happens(put(1, 2), "RolloutStarted   [v1.0.0>v1.1.0] ", "RolloutWave   [>v1.1.0] wave 1, nodes: 2")
	w.happens(put())
	r.Paused = &store.RolloutHalt{By: "token alice"}
	w.happens(put(), "RolloutPaused   [>v1.1.0] ")
	r.Paused, r.Wave = nil, 2
	w.happens(put(1), "RolloutContinued   [>v1.1.0] ", "RolloutWave   [>v1.1.0] wave 2, nodes: 1")
	r.Stopped = &store.RolloutHalt{By: one + "-1", Message: "unhealthy"}
	w.happens(put(), "RolloutStopped  "+one+"-1 [>v1.1.0] the node "+one+"-1 rolled it back: unhealthy")
	r.Stopped, r.CompletedAt = nil, w.now
	w.happens(put(), "RolloutContinued   [>v1.1.0] ", "RolloutCompleted   [>v1.1.0] ")
	w.happens(put())
	r.Wave, r.CompletedAt = 3, time.Time{}
	w.happens(put(2), "RolloutWave   [>v1.1.0] wave 3, nodes: 1")
	r.CompletedAt = w.now
	w.happens(put(), "RolloutCompleted   [>v1.1.0] ")
}

// A name from outside is bounded as every text of an event.
func TestANameOfATokenIsBounded(t *testing.T) {
	w := newWorld(t, event.Kept)
	long := make([]byte, 1000)
	for i := range long {
		long[i] = 'a'
	}
	w.must(w.store.Update(func(t *store.Tx) error {
		return t.Tokens().Put("1", store.Token{Token: api.Token{ID: "1", Name: string(long)}})
	}))
	if list := w.list(event.Query{}).Items; len(list) != 1 || len(list[0].TokenName) != 300 {
		t.Errorf("%+v", list)
	}
}
