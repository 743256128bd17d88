package present

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Progress shows how nodes get on: drawn again and again on a terminal, or as
// one line for each step. It remembers when each step was seen to be done.
type Progress struct {
	// Title says what is waited for.
	Title string
	// Started is when waiting began; times are counted from there.
	Started time.Time

	done  map[string]map[string]time.Time // by node id and step
	told  map[string]string               // by node id and step: the last line
	order []string                        // condition types, as they came up
	names map[string]string
}

// Note takes in what the nodes are like now. What a node has done when it is seen
// for the first time took no time of this wait.
func (p *Progress) Note(nodes []api.Node, now time.Time) {
	if p.done == nil {
		p.done, p.told, p.names = map[string]map[string]time.Time{}, map[string]string{}, map[string]string{}
	}
	for _, n := range nodes {
		at := now
		if p.done[n.ID] == nil {
			p.done[n.ID], at = map[string]time.Time{}, time.Time{}
		}
		p.names[n.ID] = screen.Clean(n.Name)
		steps := describe.Steps(n)
		maps.DeleteFunc(p.done[n.ID], func(name string, _ time.Time) bool {
			return !slices.ContainsFunc(steps, func(s describe.Step) bool { return s.Name == name && s.Done })
		})
		for _, s := range steps {
			if _, before := p.done[n.ID][s.Name]; s.Done && !before {
				p.done[n.ID][s.Name] = at
			}
			if s.Name != describe.StepEnrolled && s.Name != api.ConditionReady && !slices.Contains(p.order, s.Name) {
				p.order = append(p.order, s.Name)
			}
		}
	}
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Lines draws the nodes as a table of their steps, no line wider than the screen.
// right stands at the end of the title's line.
func (p *Progress) Lines(s *screen.Screen, nodes []api.Node, right string, now time.Time) []string {
	titles := append(append([]string{describe.StepEnrolled}, p.order...), api.ConditionReady)
	t := screen.Table{Columns: []screen.Column{{Title: "NODE"}}}
	for _, title := range titles {
		t.Columns = append(t.Columns, screen.Column{Title: title})
	}
	for _, n := range nodes {
		row := []screen.Cell{screen.Text(n.Name)}
		byName := map[string]describe.Step{}
		for _, st := range describe.Steps(n) {
			byName[st.Name] = st
		}
		for _, title := range titles {
			row = append(row, p.cell(s, n, byName, title, now))
		}
		t.Add(row...)
	}
	table := s.Lines(t)
	lines := []string{p.head(s, right), "", table[0]}
	for i, n := range nodes {
		lines = append(lines, table[i+1])
		if text := describe.Why(n); text != "" && !n.Ready {
			lines = append(lines, p.note(s, text)...)
		}
	}
	if len(nodes) == 0 {
		lines = append(lines, s.Paint(screen.Faint, "no nodes yet"))
	}
	return lines
}

// head is the title with something at the right margin.
func (p *Progress) head(s *screen.Screen, right string) string {
	title, width := p.Title, s.Width()
	if width > 0 {
		title = s.Truncate(title, max(10, width-screen.Width(right)-2))
	}
	space := max(2, width-screen.Width(title)-screen.Width(right))
	return s.Paint(screen.Strong, title) + strings.Repeat(" ", space) + s.Paint(screen.Faint, right)
}

// note is what a node is doing or waiting for, below its row.
func (p *Progress) note(s *screen.Screen, text string) []string {
	const indent, most = 4, 2
	width := s.Width()
	if width > 0 {
		width = max(20, width-indent)
	}
	wrapped := screen.Wrap(screen.Clean(text), width)
	if len(wrapped) > most {
		last := strings.Join(wrapped[most-1:], " ")
		wrapped = append(wrapped[:most-1:most-1], s.Truncate(last, width))
	}
	for i, line := range wrapped {
		mark := "  "
		if i == 0 {
			mark = s.Symbol("└ ", "- ")
		}
		wrapped[i] = s.Paint(screen.Faint, "  "+mark+s.Truncate(line, width)) // a command may be longer
	}
	return wrapped
}

func (p *Progress) cell(s *screen.Screen, n api.Node, byName map[string]describe.Step, title string, now time.Time) screen.Cell {
	st, known := byName[title]
	switch {
	case !known:
		return screen.Cell{Text: s.Symbol("·", "."), Style: screen.Faint}
	case st.Done:
		text := s.Symbol("✓", "ok")
		if at, ok := p.done[n.ID][title]; ok && at.After(p.Started) {
			text += " " + describe.Age(at.Sub(p.Started))
		}
		return screen.Cell{Text: text, Style: screen.Good}
	case !st.Since.IsZero():
		frame := "*"
		if s.Unicode {
			frame = string(spinner[now.UnixMilli()/120%int64(len(spinner))])
		}
		return screen.Cell{Text: frame + " " + describe.Age(now.Sub(st.Since)), Style: screen.Waiting}
	case st.Bad:
		return screen.Cell{Text: s.Symbol("✗ ", "x ") + st.Text, Style: screen.Bad}
	case title == api.ConditionReady || st.Text == "":
		return screen.Cell{Text: s.Symbol("·", "."), Style: screen.Faint}
	}
	return screen.Cell{Text: s.Symbol("… ", "... ") + st.Text, Style: screen.Waiting}
}

// Transitions are the lines about what has changed since the last call, for an
// output that is no terminal.
func (p *Progress) Transitions(nodes []api.Node, now time.Time) []string {
	var lines []string
	say := func(n api.Node, key, text string) {
		if key = n.ID + " " + key; text != "" && p.told[key] != text {
			lines = append(lines, fmt.Sprintf("%6s  %s  %s", "+"+describe.Age(now.Sub(p.Started)), screen.Clean(n.Name), screen.Clean(text)))
		}
		p.told[key] = text
	}
	for _, n := range nodes {
		say(n, describe.StepEnrolled, string(n.State))
		if n.Status != nil && n.Status.Activity != nil {
			say(n, "activity", n.Status.Activity.Summary)
		}
		for _, c := range describe.PresentConditions(n) {
			if c.Type != api.ConditionReady {
				say(n, c.Type, fmt.Sprintf("%s %s %s", c.Type, c.Status, describe.ReasonAndMessage(c.Reason, c.Message)))
			}
		}
		ready := ""
		if n.Ready {
			ready = api.ConditionReady
		}
		say(n, api.ConditionReady, ready)
	}
	return lines
}

// Summary says for each node how long each step took, counted from Started;
// steps that were done before are left out.
func (p *Progress) Summary() []string {
	var lines []string
	ids := make([]string, 0, len(p.done))
	for id := range p.done {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(p.names[a]+a, p.names[b]+b) })
	for _, id := range ids {
		var parts []string
		for _, name := range append(append([]string{describe.StepEnrolled}, p.order...), api.ConditionReady) {
			if at, ok := p.done[id][name]; ok && at.After(p.Started) {
				parts = append(parts, screen.Clean(name)+" "+describe.Age(at.Sub(p.Started)))
			}
		}
		if len(parts) > 0 {
			lines = append(lines, p.names[id]+": "+strings.Join(parts, ", "))
		}
	}
	return lines
}
