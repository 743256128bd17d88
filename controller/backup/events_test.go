package backup_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/event"
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
	if len(kept.Items) != len(before.Items) || len(kept.Items) == 0 || kept.Items[len(kept.Items)-1] != before.Items[len(before.Items)-1] {
		t.Errorf("the restored store has %+v, the backup had %+v", kept, before)
	}
	w.must(w.Enrollment.Revoke(context.Background(), "s2", "lost"))
	next, err := w.Events.List(event.Query{Since: &after.Sequence, Limit: 100})
	w.must(err)
	if len(next.Items) != 1 || next.Items[0].NodeID != "s2" {
		t.Errorf("behind what was seen before the restore there is %+v", next)
	}
}
