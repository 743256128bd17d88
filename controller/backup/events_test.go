package backup_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What happened since the backup is lost, and a client that has seen it misses nothing that
// comes.
func TestEventsContinueAfterARestore(t *testing.T) {
	w := newWorld(t)
	w.expect("s1", "s2")
	file := w.take()
	before, err := w.Events.List(event.Query{Limit: 100})
	w.must(err)
	w.Clock.Advance(time.Second)
	w.must(w.Enrollment.Revoke(context.Background(), "s1", "stolen"))
	after, err := w.Events.List(event.Query{Since: &before.Sequence, Limit: 100})
	w.must(err)
	if len(after.Items) != 1 || after.Items[0].Type != api.HappenedRevoked || after.Items[0].Message != "stolen" {
		t.Fatalf("after a revocation there is %+v", after)
	}
	w.restore(file, true)
	kept, err := w.Events.List(event.Query{Limit: 100})
	w.must(err)
	n := len(kept.Items) - 1
	if n != len(before.Items) || n == 0 || kept.Items[n-1] != before.Items[n-1] {
		t.Errorf("the restored store has %+v, the backup had %+v", kept, before)
	}
	w.must(w.Enrollment.Revoke(context.Background(), "s2", "lost"))
	next, err := w.Events.List(event.Query{Since: &after.Sequence, Limit: 100})
	w.must(err)
	if len(next.Items) != 2 || next.Items[0].Type != api.HappenedStateRestored || next.Items[1].NodeID != "s2" {
		t.Errorf("behind what was seen before the restore there is %+v", next)
	}
}

// A restore is an event of its transaction: from which backup, by whom, and what it has taken over
// from the store that it replaces.
func TestARestoreIsAnEvent(t *testing.T) {
	w := newWorld(t)
	w.expect("s1")
	file := w.take()
	from := w.Store.Epoch()
	w.Clock.Advance(time.Second)
	w.must(w.Enrollment.Revoke(context.Background(), "s1", "stolen"))
	last, err := w.Events.List(event.Query{Limit: 1})
	w.must(err)
	done := w.restore(file, false)
	list, err := w.Events.List(event.Query{Since: &last.Sequence, Limit: 100})
	w.must(err)
	at, by := w.Clock.Now(), "uid 0 of this machine"
	want := []api.Event{
		{At: at, By: by, Type: api.HappenedStateRestored, From: strconv.FormatInt(from, 10), To: strconv.FormatInt(done.Epoch, 10),
			Message: "restored from a backup of 2026-01-02T03:04:05Z on 2026-01-02T03:05:06Z"},
		{At: at, By: by, Type: api.HappenedRevoked, VnfInstanceID: instance, NodeID: "s1", Message: "stolen"},
	}
	if diff := cmp.Diff(want, list.Items, cmpopts.IgnoreFields(api.Event{}, "Sequence")); diff != "" {
		t.Error(diff)
	}
}
