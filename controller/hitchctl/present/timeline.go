package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/controller/timeline"
	"github.com/nodehitch/nodehitch/shared/api"
)

// timeline shows for each target how long each step took, the slowest targets first.
func (p *page) timeline(o api.Operation, events []api.Event) {
	w := timeline.Of(o, events)
	if len(w.Tracks) == 0 {
		return
	}
	p.heading("Timeline, from " + w.Start.UTC().Format(time.TimeOnly+"Z") + ", " + describe.Precise(w.End.Sub(w.Start)))
	const most = 10
	for _, f := range w.Tracks[:min(most, len(w.Tracks))] {
		p.track(f, w)
	}
	if rest := len(w.Tracks) - most; rest > 0 {
		p.text(2, screen.Faint, fmt.Sprintf("and %d targets that were faster", rest))
	}
}

// track draws the steps of a target.
func (p *page) track(f timeline.Track, w timeline.Timeline) {
	const names, times, narrowest, widest = 26, 18, 10, 50
	width := widest
	if w := p.screen.Width(); w > 0 {
		width = min(widest, max(narrowest, w-names-times-4))
	}
	column := func(at time.Time) int {
		return int(float64(width) * float64(at.Sub(w.Start)) / float64(max(w.End.Sub(w.Start), 1)))
	}
	p.text(2, screen.Normal, f.Name)
	for _, s := range f.Over {
		from, to := column(s.Begin), column(s.End)
		to = min(width, max(to, from+1))
		from = min(from, to-1)
		bar := strings.Repeat(" ", from) + strings.Repeat(p.screen.Symbol("█", "#"), to-from) + strings.Repeat(" ", width-to)
		p.line(4, screen.Normal, fmt.Sprintf("%-*s %s %7s %8s", names-3, screen.Clean(s.Name), bar, describe.Precise(s.End.Sub(s.Begin)), "+"+describe.Precise(s.End.Sub(w.Start))))
	}
	for _, s := range f.Open {
		p.line(4, screen.Waiting, fmt.Sprintf("%-*s %s", names-3, screen.Clean(s.Name), screen.Clean(s.Why)))
	}
}
