package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
)

// Bar shows how far an upload is: redrawn in place on a terminal, else one line
// when it is done.
type Bar struct {
	screen  *screen.Screen
	live    *screen.Live
	name    string
	total   int64
	sent    int64
	now     func() time.Time
	started time.Time
	drawn   time.Time
}

// redraw is how often a bar is drawn at most.
const redraw = 100 * time.Millisecond

// NewBar begins a bar for total bytes. Done must follow.
func NewBar(s *screen.Screen, name string, total int64, now func() time.Time) *Bar {
	b := &Bar{screen: s, name: screen.Clean(name), total: total, now: now, started: now()}
	if s.TTY {
		b.live = s.Live()
	}
	return b
}

// Sent says how much has been sent in all; it may go back.
func (b *Bar) Sent(n int64) {
	b.sent = n
	if now := b.now(); b.live != nil && (now.Sub(b.drawn) >= redraw || n == b.total) {
		b.drawn = now
		b.live.Draw([]string{b.line(now)})
	}
}

// Done ends the bar.
func (b *Bar) Done() {
	if b.live != nil {
		b.live.Draw([]string{b.line(b.now())})
		b.live.Done()
		return
	}
	if b.sent == b.total {
		fmt.Fprintf(b.screen, "uploaded %s, %s in %s\n", b.name, describe.Size(b.total), describe.Age(b.now().Sub(b.started)))
	}
}

func (b *Bar) line(now time.Time) string {
	const width = 24
	done := 1.0
	if b.total > 0 {
		done = float64(b.sent) / float64(b.total)
	}
	full := int(done * width)
	gauge := b.screen.Paint(screen.Good, strings.Repeat(b.screen.Symbol("█", "#"), full)) +
		b.screen.Paint(screen.Faint, strings.Repeat(b.screen.Symbol("░", "-"), width-full))
	took := now.Sub(b.started)
	text := fmt.Sprintf(" %3d %%  %s", int(done*100), describe.Size(b.sent))
	if seconds := took.Seconds(); seconds >= 1 {
		text += "  " + describe.Size(int64(float64(b.sent)/seconds)) + "/s"
	}
	text += "  " + describe.Age(took)
	limit := b.screen.Width()
	if limit > 0 {
		limit = max(10, limit-width-screen.Width(text)-1)
	}
	name := b.screen.Truncate(b.name, limit)
	return name + " " + gauge + text
}
