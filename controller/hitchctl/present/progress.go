package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/controller/waterfall"
	"github.com/nodehitch/nodehitch/controller/wording"
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

const stepEnrolled = waterfall.StepEnrolled

// step is one thing that a node goes through, as it is now.
type step struct {
	name  string
	done  bool
	bad   bool
	since time.Time // of the activity; zero where the agent is not at it
	text  string    // reason
}

// steps are those of a node: its enrollment, its conditions, Ready.
func steps(n api.Node) []step {
	enrolled := step{name: stepEnrolled, done: n.State == api.NodeEnrolled || n.State == api.NodeLost}
	if !enrolled.done {
		enrolled.text, enrolled.bad = string(n.State), n.State == api.NodeRevoked
	}
	list := []step{enrolled}
	for _, c := range wording.Conditions(n) {
		if c.Type == api.ConditionReady {
			continue
		}
		s := step{name: c.Type, done: c.Status == api.ConditionTrue && current(n), text: c.Reason}
		if a := n.Status.Activity; a != nil && a.Condition == c.Type {
			s.since = a.StartedAt
		}
		s.bad = c.Status == api.ConditionFalse && s.since.IsZero() && c.Reason != api.ReasonConverging && c.Reason != api.ReasonNotMounted
		list = append(list, s)
	}
	return append(list, step{name: api.ConditionReady, done: n.Ready})
}

// current says that what the node reports is about its present document.
func current(n api.Node) bool {
	return n.Status != nil && n.Status.ObservedDigest == n.Digest && n.Status.ObservedGeneration == n.Generation
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
		for _, s := range steps(n) {
			if _, before := p.done[n.ID][s.name]; s.done && !before {
				p.done[n.ID][s.name] = at
			} else if !s.done && before {
				delete(p.done[n.ID], s.name)
			}
			if s.name != stepEnrolled && s.name != api.ConditionReady && !slices.Contains(p.order, s.name) {
				p.order = append(p.order, s.name)
			}
		}
	}
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Lines draws the nodes as a table of their steps, no line wider than the screen.
// right stands at the end of the title's line.
func (p *Progress) Lines(s *screen.Screen, nodes []api.Node, right string, now time.Time) []string {
	titles := append(append([]string{stepEnrolled}, p.order...), api.ConditionReady)
	t := screen.Table{Columns: []screen.Column{{Title: "NODE"}}}
	for _, title := range titles {
		t.Columns = append(t.Columns, screen.Column{Title: title})
	}
	for _, n := range nodes {
		row := []screen.Cell{screen.Text(n.Name)}
		byName := map[string]step{}
		for _, st := range steps(n) {
			byName[st.name] = st
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
		if text := wording.Why(n); text != "" && !n.Ready {
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

func (p *Progress) cell(s *screen.Screen, n api.Node, byName map[string]step, title string, now time.Time) screen.Cell {
	st, known := byName[title]
	switch {
	case !known:
		return screen.Cell{Text: s.Symbol("·", "."), Style: screen.Faint}
	case st.done:
		text := s.Symbol("✓", "ok")
		if at, ok := p.done[n.ID][title]; ok && at.After(p.Started) {
			text += " " + wording.Age(at.Sub(p.Started))
		}
		return screen.Cell{Text: text, Style: screen.Good}
	case !st.since.IsZero():
		frame := "*"
		if s.Unicode {
			frame = string(spinner[now.UnixMilli()/120%int64(len(spinner))])
		}
		return screen.Cell{Text: frame + " " + wording.Age(now.Sub(st.since)), Style: screen.Waiting}
	case st.bad:
		return screen.Cell{Text: s.Symbol("✗ ", "x ") + st.text, Style: screen.Bad}
	case title == api.ConditionReady || st.text == "":
		return screen.Cell{Text: s.Symbol("·", "."), Style: screen.Faint}
	}
	return screen.Cell{Text: s.Symbol("… ", "... ") + st.text, Style: screen.Waiting}
}

// Transitions are the lines about what has changed since the last call, for an
// output that is no terminal.
func (p *Progress) Transitions(nodes []api.Node, now time.Time) []string {
	var lines []string
	say := func(n api.Node, key, text string) {
		if key = n.ID + " " + key; text != "" && p.told[key] != text {
			lines = append(lines, fmt.Sprintf("%6s  %s  %s", "+"+wording.Age(now.Sub(p.Started)), screen.Clean(n.Name), screen.Clean(text)))
		}
		p.told[key] = text
	}
	for _, n := range nodes {
		say(n, stepEnrolled, string(n.State))
		if n.Status != nil && n.Status.Activity != nil {
			say(n, "activity", n.Status.Activity.Summary)
		}
		for _, c := range wording.Conditions(n) {
			if c.Type != api.ConditionReady {
				say(n, c.Type, fmt.Sprintf("%s %s %s", c.Type, c.Status, wording.ReasonAndMessage(c.Reason, c.Message)))
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
		for _, name := range append(append([]string{stepEnrolled}, p.order...), api.ConditionReady) {
			if at, ok := p.done[id][name]; ok && at.After(p.Started) {
				parts = append(parts, screen.Clean(name)+" "+wording.Age(at.Sub(p.Started)))
			}
		}
		if len(parts) > 0 {
			lines = append(lines, p.names[id]+": "+strings.Join(parts, ", "))
		}
	}
	return lines
}
