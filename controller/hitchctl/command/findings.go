package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
)

// printFindings prints faults and warnings: grouped if the screen has a width,
// else one on a line, as compilers do.
func (a *app) printFindings(s *screen.Screen, c *checked) error {
	for _, part := range []struct {
		word  string
		style screen.Style
		list  []request.Finding
	}{{"fault", screen.Bad, c.Faults}, {"warning", screen.Waiting, c.Warnings}} {
		if s.Width() == 0 {
			for _, f := range part.list {
				fmt.Fprintf(s, "%s: %s: %s\n", screen.Clean(place(f)), part.word, screen.Clean(f.Message))
			}
			continue
		}
		if len(part.list) > 0 {
			fmt.Fprintln(s, s.Paint(part.style, count(len(part.list), part.word)))
			printGroups(s, part.list)
			fmt.Fprintln(s)
		}
	}
	if slices.ContainsFunc(c.Faults, func(f request.Finding) bool { return f.Pointer == "" }) {
		a.printHint(a.mendFile())
	}
	return nil
}

// place is where a finding is: document:/pointer.
func place(f request.Finding) string {
	if f.Pointer == "" {
		return f.Document
	}
	return f.Document + ":" + f.Pointer
}

// sentence is a finding with its place. What is wrong with the whole document is said of it:
// "half.json is not whole JSON".
func sentence(f request.Finding) string {
	if f.Pointer == "" {
		return f.Document + " " + f.Message
	}
	return place(f) + ": " + f.Message
}

// printGroups prints findings below the part of the document that they share, so
// that long pointers leave room for what is wrong.
func printGroups(s *screen.Screen, list []request.Finding) {
	narrow := screen.Indented(s, 2)
	for len(list) > 0 {
		head, _ := splitPlace(list[0])
		n := 1
		for n < len(list) {
			if next, _ := splitPlace(list[n]); next != head {
				break
			}
			n++
		}
		t := screen.Table{Bare: true, Wrap: true, Columns: []screen.Column{{Flexible: true}, {Flexible: true}}}
		for _, f := range list[:n] {
			_, rest := splitPlace(f)
			t.Add(screen.Cell{Text: rest, Style: screen.Strong}, screen.Text(f.Message))
		}
		for _, line := range screen.Wrap(screen.Clean(head), s.Width()) {
			fmt.Fprintln(s, s.Paint(screen.Faint, line))
		}
		for _, line := range narrow.Lines(t) {
			fmt.Fprintln(s, "  "+line)
		}
		list = list[n:]
	}
}

// splitPlace cuts a place behind the parameter object that it is in.
func splitPlace(f request.Finding) (head, rest string) {
	parts := strings.SplitN(f.Pointer, "/", 4)
	if len(parts) < 4 {
		return f.Document, strings.TrimPrefix(f.Pointer, "/")
	}
	return f.Document + ":" + strings.Join(parts[:3], "/"), parts[3]
}
