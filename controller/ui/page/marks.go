package page

import (
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
)

// badge is a word with a symbol and a colour: none of the three is needed to read the others.
type badge struct {
	// Mark is the symbol and the class: good, bad, wait or plain.
	Mark string
	Text string
}

func mark(t describe.Tone) string {
	switch t {
	case describe.Good:
		return "good"
	case describe.Bad:
		return "bad"
	case describe.Waiting:
		return "wait"
	}
	return "plain"
}

func toned(t describe.Tone, text string) badge { return badge{Mark: mark(t), Text: text} }

// unconfirmed is a badge of what a restore brought back.
func unconfirmed(b badge, yes bool) badge {
	if yes {
		return badge{Mark: "bad", Text: b.Text + ", " + describe.Unconfirmed}
	}
	return b
}

// asReported is what was reported; what a restore brought back was before it.
func asReported(text string, restored bool) string {
	if restored {
		return text + ", as last reported, before the restore"
	}
	return text
}

// stamp is a time on a page. The script keeps the age in it true; a fragment has the time alone
// until then, so that it is the same whenever it is written.
type stamp struct {
	// ISO is for programs, Moment for people, in UTC; both are empty for no time.
	ISO, Moment string
	// Show says what the script shows: age ("5m02s ago"), minute ("5m ago"), for ("5m02s"), deadline ("in 5m",
	// "passed 5m ago"), or both the time and its age.
	Show string
	Text string
}

// The forms of a stamp.
const (
	showAge    = "age"
	showMinute = "minute"
	showFor    = "for"
	showLimit  = "deadline"
	showBoth   = "both"
)

// stamp is how a time is written. A fragment has the moment alone: its text must not change while
// nothing else does.
func (f Frame) stamp(show string, t *time.Time) stamp {
	if t == nil || t.IsZero() {
		return stamp{}
	}
	s := stamp{ISO: t.UTC().Format(time.RFC3339), Moment: t.UTC().Format(time.DateTime), Show: show}
	switch {
	case f.Fragment:
		s.Text = s.Moment
	case show == showAge:
		s.Text = describe.Relative(*t, f.Now)
	case show == showMinute:
		s.Text = describe.RelativeMinute(*t, f.Now)
	case show == showLimit && !t.After(f.Now):
		s.Text = "passed " + describe.Relative(*t, f.Now)
	case show == showLimit:
		s.Text = describe.Relative(*t, f.Now)
	case show == showFor:
		s.Text = describe.Age(f.Now.Sub(*t))
	default:
		s.Text = s.Moment + " (" + describe.Relative(*t, f.Now) + ")"
	}
	return s
}

// age is how long ago it was, in a table; last is how long something lasts; both is the time and
// its age.
func (f Frame) age(t *time.Time) stamp  { return f.stamp(showAge, t) }
func (f Frame) last(t time.Time) stamp  { return f.stamp(showFor, &t) }
func (f Frame) both(t *time.Time) stamp { return f.stamp(showBoth, t) }

// deadline is when a deadline is, or that it has passed.
func (f Frame) deadline(t time.Time) stamp { return f.stamp(showLimit, &t) }

// minute is the age of a call, to the minute. The time of the last one changes all the time, and so
// does not make another page of each.
func (f Frame) minute(t *time.Time) stamp {
	if t == nil {
		return stamp{}
	}
	m := t.Truncate(time.Minute)
	return f.stamp(showMinute, &m)
}

// piece is a part of a text: words, or a command or name that stood in backquotes.
type piece struct {
	Code bool
	Text string
}

// prose divides a text at its backquotes. One that ends nothing stays.
func prose(text string) []piece {
	parts := strings.Split(text, "`")
	if len(parts)%2 == 0 {
		return []piece{{Text: text}}
	}
	var pieces []piece
	for i, part := range parts {
		if part != "" {
			pieces = append(pieces, piece{Code: i%2 == 1, Text: part})
		}
	}
	return pieces
}

// name is an object by its name or the beginning of its id, with the whole and where it is shown.
type name struct {
	Text, Full, Path string
}

func instanceName(text, id string) name {
	return name{describe.InstanceName(text, id), id, instancePath(id)}
}

func nodeName(text, id string) name {
	if text == "" {
		text = describe.Short(id)
	}
	return name{text, id, nodePath(id)}
}
func volumeName(id string) name { return name{describe.Short(id), id, volumePath(id)} }

// field is a labelled value of an object: a text, a time or a link. One without a value is left
// out.
type field struct {
	Label string
	Text  string
	Time  stamp
	Link  *name
	Badge *badge
}

// fields leaves out what has no value.
func fields(all ...field) []field {
	var list []field
	for _, f := range all {
		if f.Text != "" || f.Time.ISO != "" || f.Link != nil || f.Badge != nil {
			list = append(list, f)
		}
	}
	return list
}
