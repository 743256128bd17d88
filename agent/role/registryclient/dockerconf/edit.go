package dockerconf

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// list is an object or an array in the text, as far as editing goes: what stands
// between its brackets, in pieces whose sum it is.
type list struct {
	first, end int // the bytes between the brackets: from first to before end
	items      []item
	tail       string // white space before the closing bracket
}

// item is a member or an element, and the white space around it up to the commas.
// The last one has none after it: that is the list's tail.
type item struct{ before, text, after string }

// list is that of an object's members or an array's elements.
func (d *document) list(v *hujson.Value) list {
	l := list{first: v.StartOffset + 1, end: v.EndOffset - 1}
	add := func(first, last *hujson.Value) {
		text := d.text[first.StartOffset:last.EndOffset]
		l.items = append(l.items, item{string(first.BeforeExtra), string(text), string(last.AfterExtra)})
	}
	switch v := v.Value.(type) {
	case *hujson.Object:
		for i := range v.Members {
			add(&v.Members[i].Name, &v.Members[i].Value)
		}
		l.tail = string(v.AfterExtra)
	case *hujson.Array:
		for i := range v.Elements {
			add(&v.Elements[i], &v.Elements[i])
		}
		l.tail = string(v.AfterExtra)
	}
	return l
}

// with is the whole text with this list as it has become.
func (d *document) with(l list) []byte {
	var inside strings.Builder
	for i, it := range l.items {
		if i > 0 {
			inside.WriteByte(',')
		}
		inside.WriteString(it.before + it.text)
		if i+1 < len(l.items) {
			inside.WriteString(it.after)
		}
	}
	return d.replace(l.first, l.end, inside.String()+l.tail)
}

// replace puts text in the place of the bytes from first to before end.
func (d *document) replace(first, end int, text string) []byte {
	return slices.Concat(d.text[:first], []byte(text), d.text[end:])
}

// lead is the white space before an item that is put at the end of the list: that of
// the last one or, in an empty list whose closing bracket has a line of its own, a new
// line one level deeper than that.
func (d *document) lead(l list) string {
	if last := len(l.items) - 1; last > 0 || last == 0 && l.items[0].before != "" {
		return l.items[last].before
	}
	if len(l.items) == 1 {
		return " "
	}
	if newline := strings.LastIndexByte(l.tail, '\n'); newline >= 0 {
		return d.eol() + l.tail[newline+1:] + d.indent()
	}
	return ""
}

// without is the list without the items that are chosen. What is now the first one
// stands where the first one stood.
func (l list) without(chosen func(i int) bool) list {
	kept := list{first: l.first, end: l.end, tail: l.tail}
	for i, it := range l.items {
		if !chosen(i) {
			kept.items = append(kept.items, it)
		}
	}
	if len(kept.items) > 0 {
		kept.items[0].before = l.items[0].before
	}
	return kept
}

// indent is one level of it, as the file's first member shows.
func (d *document) indent() string {
	if l := d.list(d.root); len(l.items) > 0 {
		if newline := strings.LastIndexByte(l.items[0].before, '\n'); newline >= 0 && l.items[0].before[newline+1:] != "" {
			return l.items[0].before[newline+1:]
		}
	}
	return "  "
}

// eol ends lines as the file's first line does.
func (d *document) eol() string {
	if i := bytes.IndexByte(d.text, '\n'); i > 0 && d.text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// quoted is a string in JSON.
func quoted(s string) string {
	text, _ := json.Marshal(s) // of a string it has no error
	return string(text)
}
