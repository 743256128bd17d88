// Package timeline decides what the targets of an operation went through while it was in
// progress, and how long each step took: a pure function of the operation and its events.
package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Timeline is the steps of an operation's targets, the slowest target first. A target without a
// step is not in it.
type Timeline struct {
	// Start is when the operation began, End the end of the last step that is over.
	Start, End time.Time
	Tracks     []Track
}

// Track is what one target went through.
type Track struct {
	NodeID, Name string
	// Over are the steps that are over, in the order of their ends; Open are the others.
	Over, Open []Step
}

// Step is one step of a target. It begins at the end of the one before, the first one when the
// operation began.
type Step struct {
	Name       string
	Begin, End time.Time
	// Why is what keeps the step from being over; its End is zero then. Reason is that of a
	// condition.
	Why    string
	Reason api.Reason
}

// The steps that are neither Enrolled nor a condition.
const (
	// StepBooted is over when the machine began to boot that enrolled later. It is only there if
	// that was after the operation began and after every other step that is over.
	StepBooted = "Booted"
	// StepDocument is over when the node has reported the last document that it was given.
	StepDocument = "Document"
)

// Of is the timeline of an operation by events, which come in their order and may be of any
// node. What happened before the operation began, or after its end, is not in it.
func Of(o api.Operation, events []api.Event) Timeline {
	w := Timeline{Start: o.StartedAt, End: o.StartedAt}
	tracks := make(map[string]*Track, len(o.Targets))
	for _, target := range o.Targets {
		tracks[target.NodeID] = &Track{NodeID: target.NodeID, Name: target.Name}
	}
	for _, e := range events {
		within := !e.At.Before(o.StartedAt) && (o.FinishedAt == nil || e.At.Before(o.FinishedAt.Add(time.Second)))
		if f := tracks[e.NodeID]; f != nil && within {
			f.note(e, o.StartedAt)
		}
	}
	for _, target := range o.Targets {
		f := tracks[target.NodeID]
		if f == nil || len(f.Over)+len(f.Open) == 0 {
			continue
		}
		delete(tracks, target.NodeID)
		f.begin(o.StartedAt)
		if last := f.last(); last.After(w.End) {
			w.End = last
		}
		w.Tracks = append(w.Tracks, *f)
	}
	slices.SortStableFunc(w.Tracks, slower)
	return w
}

// note takes in an event of the node, in an operation that began at start.
func (f *Track) note(e api.Event, start time.Time) {
	switch e.Type {
	case api.HappenedEnrolled:
		f.drop(StepBooted)
		if at := e.BootedAt; at != nil && at.After(start) && at.After(f.last()) {
			f.land(Step{Name: StepBooted, End: *at})
		}
		f.land(Step{Name: string(e.Type), End: e.At})
	case api.HappenedDocumentGiven:
		f.land(Step{Name: StepDocument, Why: fmt.Sprintf("generation %d is not reported", e.Generation)})
	case api.HappenedDocumentObserved:
		f.land(Step{Name: StepDocument, End: e.At})
	case api.HappenedConditionChanged:
		switch {
		case e.To == "":
			f.drop(e.Condition)
		case e.To != string(api.ConditionTrue):
			f.land(Step{Name: e.Condition, Why: e.To + " " + e.Reason, Reason: e.Reason})
		case e.From != e.To:
			f.land(Step{Name: e.Condition, End: e.At})
		}
	}
}

// land replaces what is known of a step.
func (f *Track) land(s Step) {
	f.drop(s.Name)
	if s.End.IsZero() {
		f.Open = append(f.Open, s)
	} else {
		f.Over = append(f.Over, s)
	}
}

func (f *Track) drop(name string) {
	is := func(s Step) bool { return s.Name == name }
	f.Over, f.Open = slices.DeleteFunc(f.Over, is), slices.DeleteFunc(f.Open, is)
}

// begin says when each step began. A step took no time if the controller's clock went back.
func (f *Track) begin(start time.Time) {
	for i, s := range f.Over {
		f.Over[i].Begin = earlier(start, s.End)
		start = s.End
	}
	for i := range f.Open {
		f.Open[i].Begin = start
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// last is the end of the last step that is over.
func (f *Track) last() (at time.Time) {
	if n := len(f.Over); n > 0 {
		at = f.Over[n-1].End
	}
	return at
}

// slower orders those first that have an open step, then those that ended last.
func slower(a, b Track) int {
	if x, y := len(a.Open) > 0, len(b.Open) > 0; x != y {
		if x {
			return -1
		}
		return 1
	}
	return b.last().Compare(a.last())
}
