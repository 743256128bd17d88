// Package supportbundle makes the file that an on-call engineer sends to a colleague. It is
// bounded: what is left out of a part, and a part that cannot be had, is said in the file's index.
package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nodehitch/nodehitch/shared/plain"
)

// What a part has, at most.
const (
	MostItems = 5000
	mostBytes = 16 << 20
)

// Index is the name of the file that says what there is.
const Index = "index.txt"

// Bundle is the parts, in memory.
type Bundle struct {
	// Head is the first lines of the index.
	Head []string

	at      time.Time
	parts   []part
	missing []string
}

type part struct {
	name, about string
	content     []byte
	cut         bool
}

// New is a bundle without parts, of a moment.
func New(at time.Time) *Bundle { return &Bundle{at: at.UTC()} }

// Text adds a part. Of a text that is too long, the end is kept.
func (b *Bundle) Text(name, about, text string) {
	p := part{name: name, about: about, content: []byte(text)}
	if over := len(text) - mostBytes; over > 0 {
		rest := text[over:]
		p.content = []byte(rest[strings.IndexByte(rest, '\n')+1:])
		p.cut, p.about = true, fmt.Sprintf("%s; of %d bytes, the last %d", about, len(text), len(p.content))
	}
	b.parts = append(b.parts, p)
}

// JSON adds a part that is one object.
func (b *Bundle) JSON(name, about string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		b.Missing(name, err)
		return
	}
	b.Text(name, about, string(plain.JSON(text))+"\n")
}

// Items adds a list as JSON, an object on a line; what is most important comes first.
func Items[T any](b *Bundle, name, about string, items []T, most int) {
	p := part{name: name}
	have := 0
	for _, item := range items[:min(len(items), most)] {
		line, err := json.Marshal(item)
		if err != nil {
			b.Missing(name, err)
			return
		}
		if len(p.content)+len(line) >= mostBytes {
			break
		}
		p.content = append(append(p.content, plain.JSON(line)...), '\n')
		have++
	}
	p.about = fmt.Sprintf("%d %s", have, about)
	if p.cut = have < len(items); p.cut {
		p.about = fmt.Sprintf("the first %d of %d %s", have, len(items), about)
	}
	b.parts = append(b.parts, p)
}

// Missing names a part that cannot be had, and why.
func (b *Bundle) Missing(name string, why error) {
	b.missing = append(b.missing, plain.Line(name+": "+why.Error()))
}

// Empty says that there is no part.
func (b *Bundle) Empty() bool { return len(b.parts) == 0 }

// Lacking is each part that is not whole or not there, a line each.
func (b *Bundle) Lacking() (lines []string) {
	for _, p := range b.parts {
		if p.cut {
			lines = append(lines, p.name+" has "+p.about)
		}
	}
	return append(lines, b.missing...)
}

func (b *Bundle) index() string {
	var text bytes.Buffer
	for _, line := range b.Head {
		fmt.Fprintln(&text, plain.Line(line))
	}
	fmt.Fprintln(&text, "\nIt has names, ids and addresses, and no password, token or private key.\n\nWhat is in it:")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, p := range b.parts {
		fmt.Fprintf(table, "  %s\t%d bytes\t%s\n", p.name, len(p.content), p.about)
	}
	_ = table.Flush() // memory takes it
	if len(b.missing) > 0 {
		fmt.Fprintln(&text, "\nWhat could not be had:")
	}
	for _, line := range b.missing {
		fmt.Fprintln(&text, "  "+line)
	}
	return text.String()
}

// Write writes a tar.gz with the index and the parts in one directory.
func (b *Bundle) Write(w io.Writer) error {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	directory := "nodehitch-support-" + b.at.Format("20060102T150405Z") + "/"
	index := part{name: Index, content: []byte(b.index())}
	for _, p := range append([]part{index}, b.parts...) {
		head := &tar.Header{Name: directory + p.name, Mode: 0o600, Size: int64(len(p.content)), ModTime: b.at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(p.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}
