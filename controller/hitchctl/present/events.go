package present

import (
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Events are a line for each event: when, what, to what, and why and by whom.
func Events(s *screen.Screen, list []api.Event) []string {
	p := &page{screen: s}
	p.events(0, list)
	return p.lines
}

func (p *page) events(indent int, list []api.Event) {
	for _, e := range list {
		p.line(indent, style(describe.OfEvent(e)), fmt.Sprintf("%s  %-19s %s", describe.Moment(e.At), e.Type,
			screen.Clean(strings.Join([]string{describe.EventObject(e), describe.Event(e)}, "  "))))
	}
}

// lastEvents is the end of a description.
func (p *page) lastEvents(list []api.Event) {
	const few = 10
	if len(list) == 0 {
		return
	}
	p.heading("Last events")
	p.events(2, list[max(0, len(list)-few):])
}
