package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// page collects the lines of a description for one screen.
type page struct {
	screen *screen.Screen
	now    time.Time
	lines  []string
}

const labelWidth = 14

// field is one labelled value, wrapped below itself.
func (p *page) field(label, value string) {
	if value == "" {
		return
	}
	width := p.screen.Width()
	if width > 0 {
		width = max(20, width-labelWidth)
	}
	for i, line := range screen.Wrap(screen.Clean(value), width) {
		head := strings.Repeat(" ", labelWidth)
		if i == 0 {
			head = fmt.Sprintf("%-*s", labelWidth, label+":")
			head = strings.Replace(head, label, p.screen.Paint(screen.Faint, label), 1)
		}
		p.lines = append(p.lines, head+line)
	}
}

func (p *page) heading(text string) {
	p.lines = append(p.lines, "", p.screen.Paint(screen.Strong, text))
}

// text is a paragraph, indented.
func (p *page) text(indent int, style screen.Style, text string) {
	width := p.screen.Width()
	if width > 0 {
		width = max(20, width-indent)
	}
	for _, line := range screen.Wrap(screen.Clean(text), width) {
		p.lines = append(p.lines, strings.Repeat(" ", indent)+p.screen.Paint(style, line))
	}
}

// line is one line with its own spacing, cut if it does not fit. The text must
// be clean.
func (p *page) line(indent int, style screen.Style, text string) {
	if width := p.screen.Width(); width > 0 {
		text = p.screen.Truncate(text, max(20, width-indent))
	}
	p.lines = append(p.lines, strings.Repeat(" ", indent)+p.screen.Paint(style, text))
}

func (p *page) table(t screen.Table) {
	p.lines = append(p.lines, p.screen.Lines(t)...)
}

// moment is a time and how long ago it was.
func (p *page) moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return describe.Moment(*t) + " (" + describe.Relative(*t, p.now) + ")"
}

// reason explains a reason: what it means, and what to do.
func (p *page) reason(indent int, r api.Reason) {
	if doc, known := api.Reasons[r]; known {
		p.doc(indent, doc)
	}
}

func (p *page) doc(indent int, doc api.ReasonDoc) {
	p.text(indent, screen.Faint, "means: "+doc.Meaning)
	if doc.Action != "" {
		p.text(indent, screen.Normal, "do: "+doc.Action)
	}
}

func (p *page) withheld(list []api.Withheld) {
	if len(list) == 0 {
		return
	}
	p.heading("Withheld from its configuration")
	for _, w := range list {
		p.text(2, style(describe.OfReason(w.Reason)), w.Section+": "+w.Reason)
		p.text(6, screen.Normal, w.Message)
		p.reason(6, w.Reason)
	}
}

func (p *page) faults(heading string, list []api.Fault) {
	if len(list) == 0 {
		return
	}
	p.heading(heading)
	for _, f := range list {
		p.text(2, screen.Normal, f.String())
	}
}
