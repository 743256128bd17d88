package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// fall is what one target of an operation went through while that was in progress.
type fall struct {
	name string
	// over are the steps that are over, in the order of their ends; open are the others.
	over, open []landing
}

// landing is a step, with its end if it is over, and else why it is not.
type landing struct {
	name, why string
	at        time.Time
}

// stepDocument is over when the node has reported the last document that it was given.
const stepDocument = "Document"

// land replaces what is known of a step; a zero time says that it is not over.
func (f *fall) land(name, why string, at time.Time) {
	f.drop(name)
	if s := (landing{name, why, at}); at.IsZero() {
		f.open = append(f.open, s)
	} else {
		f.over = append(f.over, s)
	}
}

func (f *fall) drop(name string) {
	is := func(s landing) bool { return s.name == name }
	f.over, f.open = slices.DeleteFunc(f.over, is), slices.DeleteFunc(f.open, is)
}

// note takes in an event of the node. Events come in their order.
func (f *fall) note(e api.Event) {
	switch e.Type {
	case api.HappenedEnrolled:
		f.land(stepEnrolled, "", e.At)
	case api.HappenedDocumentGiven:
		f.land(stepDocument, fmt.Sprintf("generation %d is not reported", e.Generation), time.Time{})
	case api.HappenedDocumentObserved:
		f.land(stepDocument, "", e.At)
	case api.HappenedConditionChanged:
		switch {
		case e.To == "":
			f.drop(e.Condition)
		case e.To != string(api.ConditionTrue):
			f.land(e.Condition, e.To+" "+e.Reason, time.Time{})
		case e.From != e.To:
			f.land(e.Condition, "", e.At)
		}
	}
}

// waterfall shows for each target how long each step took, the slowest targets first. What
// happened before the operation began, or after its end, is not in it.
func (p *page) waterfall(o api.Operation, events []api.Event) {
	falls := make([]fall, len(o.Targets))
	end := o.StartedAt
	for i, target := range o.Targets {
		f := &falls[i]
		f.name = target.Name
		for _, e := range events {
			within := !e.At.Before(o.StartedAt) && (o.FinishedAt == nil || e.At.Before(o.FinishedAt.Add(time.Second)))
			if e.NodeID == target.NodeID && within {
				f.note(e)
			}
		}
		if n := len(f.over); n > 0 && f.over[n-1].at.After(end) {
			end = f.over[n-1].at
		}
	}
	falls = slices.DeleteFunc(falls, func(f fall) bool { return len(f.over)+len(f.open) == 0 })
	if len(falls) == 0 {
		return
	}
	slices.SortStableFunc(falls, slower)
	p.heading("Waterfall, from " + o.StartedAt.UTC().Format(time.TimeOnly+"Z") + ", " + precise(end.Sub(o.StartedAt)))
	const most = 10
	for _, f := range falls[:min(most, len(falls))] {
		p.fall(f, o.StartedAt, end)
	}
	if rest := len(falls) - most; rest > 0 {
		p.text(2, screen.Faint, fmt.Sprintf("and %d targets that were faster", rest))
	}
}

// slower orders those first that have an open step, then those that ended last.
func slower(a, b fall) int {
	if x, y := len(a.open) > 0, len(b.open) > 0; x != y {
		if x {
			return -1
		}
		return 1
	}
	return b.last().Compare(a.last())
}

// last is the end of the last step that is over.
func (f fall) last() (at time.Time) {
	if n := len(f.over); n > 0 {
		at = f.over[n-1].at
	}
	return at
}

// fall draws the steps of a target: each from the end of the one before to its own.
func (p *page) fall(f fall, start, end time.Time) {
	const names, times, narrowest, widest = 26, 18, 10, 50
	width := widest
	if w := p.screen.Width(); w > 0 {
		width = min(widest, max(narrowest, w-names-times-4))
	}
	column := func(at time.Time) int {
		return int(float64(width) * float64(at.Sub(start)) / float64(max(end.Sub(start), 1)))
	}
	p.text(2, screen.Normal, f.name)
	before := start
	for _, s := range f.over {
		from, to := column(before), column(s.at)
		to = min(width, max(to, from+1))
		from = min(from, to-1)
		bar := strings.Repeat(" ", from) + strings.Repeat(p.screen.Symbol("█", "#"), to-from) + strings.Repeat(" ", width-to)
		p.line(4, screen.Normal, fmt.Sprintf("%-*s %s %7s %8s", names-3, screen.Clean(s.name), bar, precise(s.at.Sub(before)), "+"+precise(s.at.Sub(start))))
		before = s.at
	}
	for _, s := range f.open {
		p.line(4, screen.Waiting, fmt.Sprintf("%-*s %s", names-3, screen.Clean(s.name), screen.Clean(s.why)))
	}
}

// precise is Age with milliseconds, and tenths of the first seconds.
func precise(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return Age(d)
}
