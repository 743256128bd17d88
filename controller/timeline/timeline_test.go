package timeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/timeline"
	"github.com/nodehitch/nodehitch/shared/api"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// drawnOperation is one with up to four targets, in progress or over.
func drawnOperation(t *rapid.T) api.Operation {
	o := api.Operation{StartedAt: start}
	for n := range rapid.IntRange(0, 4).Draw(t, "targets") {
		o.Targets = append(o.Targets, api.OperationTarget{NodeID: fmt.Sprint("node", n), Name: fmt.Sprint("name", n)})
	}
	if rapid.Bool().Draw(t, "over") {
		at := start.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "finished")) * time.Second)
		o.FinishedAt = &at
	}
	return o
}

// drawnEvents are of targets and others, from before the operation to after it, in their order.
func drawnEvents(t *rapid.T) []api.Event {
	status := rapid.SampledFrom([]string{"", "True", "False", "Unknown"})
	drawn := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) api.Event {
		e := api.Event{NodeID: fmt.Sprint("node", rapid.IntRange(0, 5).Draw(t, "node")),
			At: start.Add(time.Duration(rapid.IntRange(-10, 80).Draw(t, "at")) * time.Second),
			Type: rapid.SampledFrom([]api.EventType{api.HappenedEnrolled, api.HappenedDocumentGiven, api.HappenedDocumentObserved,
				api.HappenedConditionChanged, api.HappenedConditionChanged, api.HappenedRebooted}).Draw(t, "type")}
		if before := rapid.IntRange(-1, 90).Draw(t, "up"); e.Type == api.HappenedEnrolled && before >= 0 {
			booted := e.At.Add(-time.Duration(before) * time.Second)
			e.BootedAt = &booted
		}
		if e.Type == api.HappenedConditionChanged {
			e.Condition = rapid.SampledFrom([]string{api.ConditionVolumesMounted, api.ConditionExportsServed, api.ConditionReady}).Draw(t, "condition")
			e.From, e.To, e.Reason = status.Draw(t, "from"), status.Draw(t, "to"), "Reason"
		}
		return e
	}), 0, 30).Draw(t, "events")
	slices.SortStableFunc(drawn, func(a, b api.Event) int { return a.At.Compare(b.At) })
	return drawn
}

// Whatever has happened: each target is there once at most, each step once, steps that are over
// come one after the other without a gap, and none ends before the operation or after it.
func TestStepsFollowOneAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, events := drawnOperation(t), drawnEvents(t)
		w := timeline.Of(o, events)
		last, ids := start, map[string]bool{}
		for _, f := range w.Tracks {
			if ids[f.NodeID] {
				t.Fatalf("%s is there twice", f.NodeID)
			}
			ids[f.NodeID] = true
			names, before := map[string]bool{}, start
			for _, s := range slices.Concat(f.Over, f.Open) {
				if names[s.Name] {
					t.Fatalf("%s has the step %s twice", f.NodeID, s.Name)
				}
				names[s.Name] = true
				if !s.Begin.Equal(before) {
					t.Fatalf("%s of %s begins at %s, expected %s", s.Name, f.NodeID, s.Begin, before)
				}
				if s.Why == "" {
					if s.End.Before(s.Begin) || o.FinishedAt != nil && s.End.Sub(*o.FinishedAt) >= time.Second {
						t.Fatalf("%s of %s ends at %s", s.Name, f.NodeID, s.End)
					}
					before = s.End
				} else if !s.End.IsZero() {
					t.Fatalf("%s of %s is open and has an end", s.Name, f.NodeID)
				}
			}
			if before.After(last) {
				last = before
			}
			if len(names) == 0 {
				t.Fatalf("%s has no step", f.NodeID)
			}
		}
		if !w.Start.Equal(start) || !w.End.Equal(last) {
			t.Fatalf("from %s to %s, expected to %s", w.Start, w.End, last)
		}
	})
}

// A target's steps come from its own events alone, in the operation's time.
func TestOnlyItsOwnEventsMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, events := drawnOperation(t), drawnEvents(t)
		whole := timeline.Of(o, events)
		for _, f := range whole.Tracks {
			own := slices.DeleteFunc(slices.Clone(events), func(e api.Event) bool {
				return e.NodeID != f.NodeID || e.At.Before(start) || o.FinishedAt != nil && e.At.Sub(*o.FinishedAt) >= time.Second
			})
			alone := timeline.Of(o, own)
			if len(alone.Tracks) != 1 {
				t.Fatalf("%d tracks of %s", len(alone.Tracks), f.NodeID)
			}
			if diff := cmp.Diff(f, alone.Tracks[0]); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// Those that still wait are first, and then those that were slower.
func TestTheSlowestIsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := timeline.Of(drawnOperation(t), drawnEvents(t))
		for i := 1; i < len(w.Tracks); i++ {
			a, b := w.Tracks[i-1], w.Tracks[i]
			if len(a.Open) == 0 && len(b.Open) > 0 {
				t.Fatalf("%s waits, and stands behind %s", b.NodeID, a.NodeID)
			}
			if (len(a.Open) > 0) == (len(b.Open) > 0) && ended(a).Before(ended(b)) {
				t.Fatalf("%s was slower, and stands behind %s", b.NodeID, a.NodeID)
			}
		}
	})
}

func ended(f timeline.Track) time.Time {
	if len(f.Over) == 0 {
		return time.Time{}
	}
	return f.Over[len(f.Over)-1].End
}

// The boot of a machine is a step before Enrolled, if the operation had begun by then and nothing
// else had happened.
func TestTheBootIsAStep(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	steps := func(booted *time.Time, before ...api.Event) (names []string) {
		w := timeline.Of(api.Operation{StartedAt: start, Targets: []api.OperationTarget{{NodeID: "n"}}},
			append(before, api.Event{NodeID: "n", Type: api.HappenedEnrolled, At: at(30), BootedAt: booted}))
		for _, s := range w.Tracks[0].Over {
			names = append(names, fmt.Sprint(s.Name, " ", s.Begin.Sub(start).Seconds(), "-", s.End.Sub(start).Seconds()))
		}
		return names
	}
	during, long := at(12), at(-3600)
	enrolled := api.Event{NodeID: "n", Type: api.HappenedEnrolled, At: at(14), BootedAt: &during}
	observed := api.Event{NodeID: "n", Type: api.HappenedDocumentObserved, At: at(20)}
	for name, c := range map[string]struct{ want, got []string }{
		"during the operation": {[]string{"Booted 0-12", "Enrolled 12-30"}, steps(&during)},
		"long before it":       {[]string{"Enrolled 0-30"}, steps(&long)},
		"not said":             {[]string{"Enrolled 0-30"}, steps(nil)},
		"before another step":  {[]string{"Document 0-20", "Enrolled 20-30"}, steps(&during, observed)},
		"enrolled anew":        {[]string{"Document 0-20", "Enrolled 20-30"}, steps(&during, enrolled, observed)},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A clock that was set back makes no step negative.
func TestAClockThatGoesBack(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	w := timeline.Of(api.Operation{StartedAt: start, Targets: []api.OperationTarget{{NodeID: "n"}}}, []api.Event{
		{NodeID: "n", Type: api.HappenedEnrolled, At: at(30)}, {NodeID: "n", Type: api.HappenedDocumentObserved, At: at(10)}, {NodeID: "n", Type: api.HappenedConditionChanged, Condition: "Ready", From: "False", To: "True", At: at(12)}})
	want := []timeline.Step{{Name: "Enrolled", Begin: start, End: at(30)}, {Name: timeline.StepDocument, Begin: at(10), End: at(10)}, {Name: "Ready", Begin: at(10), End: at(12)}}
	if diff := cmp.Diff(want, w.Tracks[0].Over); diff != "" {
		t.Error(diff)
	}
}
