// Package present shows the API's objects on a terminal: as rows of tables, in full
// with what each reason means and what to do, and as the progress of what is
// being waited for.
package present

import (
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// none is shown if there is nothing else to show.
const none = describe.None

// Typed is a duration as people type it: 25h, not 25h0m0s.
func Typed(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if rest, found := strings.CutSuffix(text, zero); found {
			text = rest + zero[:1]
		}
	}
	return text
}

// since is the age of a moment, none for nil.
func since(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return none
	}
	return describe.Age(now.Sub(*t))
}

// style is how a tone looks on a terminal.
func style(t describe.Tone) screen.Style {
	switch t {
	case describe.Good:
		return screen.Good
	case describe.Bad:
		return screen.Bad
	case describe.Waiting:
		return screen.Waiting
	}
	return screen.Normal
}

func ready(n api.Node) screen.Cell {
	return screen.Cell{Text: describe.Truth(n.Ready), Style: style(describe.OfReady(n))}
}
