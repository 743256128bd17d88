package page

import (
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/timeline"
	"github.com/nodehitch/nodehitch/shared/api"
)

// timelineShown is a timeline in shares of its width.
type timelineShown struct {
	Start stamp
	// End says where the axis ends, "" if no step is over. Open is whether a step is not over.
	End    string
	Open   bool
	Ticks  []tick
	Tracks []trackShown
	Rest   int
}

// tick is a line across all bars.
type tick struct{ At, Label string }

type trackShown struct {
	Target name
	Steps  []barShown
}

// barShown is a step: from where to where, or why it is not over and since when.
type barShown struct {
	Name        string
	From, Width string
	Took, At    string
	// Why is nil if the step is over. Since is zero if the operation is: the step took Took until then.
	Why   *badge
	Since stamp
}

// mostTracks is how many targets a timeline shows, the slowest ones.
const mostTracks = 25

// known is the share of the axis before the end of the last step that is over, while a step is open. How
// long that one takes is not known, and a fragment cannot depend on now, so the rest has no scale.
const known = 85

// narrowest is the least share of a bar, so that a step without duration is seen.
const narrowest = 0.6

// timeline is nil if no target has a step.
func (f Frame) timeline(o api.Operation, events []api.Event) *timelineShown {
	w := timeline.Of(o, events)
	if len(w.Tracks) == 0 {
		return nil
	}
	over, open := o.FinishedAt != nil, slices.ContainsFunc(w.Tracks, func(t timeline.Track) bool { return len(t.Open) > 0 })
	end, scale, what := w.End, 100.0, "the last step that is over"
	switch {
	case over && open:
		end, what = *o.FinishedAt, "the operation"
	case over:
		what = "the last step"
	case open:
		scale = known
	}
	total := max(end.Sub(w.Start), time.Millisecond)
	share := func(d time.Duration) float64 { return scale * float64(d) / float64(total) }
	shown := &timelineShown{Start: f.stamp(showBoth, &w.Start), Open: open}
	if end.After(w.Start) {
		shown.End = what + " ended " + describe.Precise(end.Sub(w.Start)) + " after the start"
	}
	every := tickEvery(total)
	for at := every; at < total*98/100; at += every {
		shown.Ticks = append(shown.Ticks, tick{percent(share(at)), "+" + describe.Precise(at)})
	}
	tracks, rest := few(w.Tracks, mostTracks)
	shown.Rest = rest
	for _, track := range tracks {
		s := trackShown{Target: nodeName(track.Name, track.NodeID)}
		for _, step := range track.Over {
			width := min(max(share(step.End.Sub(step.Begin)), narrowest), 100)
			from := min(max(share(step.Begin.Sub(w.Start)), 0), 100-width)
			s.Steps = append(s.Steps, barShown{Name: step.Name, From: percent(from), Width: percent(width),
				Took: describe.Precise(step.End.Sub(step.Begin)), At: "+" + describe.Precise(step.End.Sub(w.Start))})
		}
		for _, step := range track.Open {
			width := min(max(100-share(step.Begin.Sub(w.Start)), narrowest), 100)
			why := toned(describe.OfReason(step.Reason), step.Why)
			bar := barShown{Name: step.Name, From: percent(100 - width), Width: percent(width), Why: &why}
			if over {
				bar.Took = describe.Precise(end.Sub(step.Begin))
			} else {
				bar.Since = f.last(step.Begin)
			}
			s.Steps = append(s.Steps, bar)
		}
		shown.Tracks = append(shown.Tracks, s)
	}
	return shown
}

// tickEvery is a round duration that divides d into a few parts.
func tickEvery(d time.Duration) time.Duration {
	for _, every := range []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
		20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if d/every <= 5 {
			return every
		}
	}
	return (d / 5).Truncate(24*time.Hour) + 24*time.Hour
}
