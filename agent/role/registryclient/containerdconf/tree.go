package containerdconf

import (
	"bytes"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// node is a header, a key with its value, or an inline table in the text.
type node struct {
	kind       unstable.Kind // Table, KeyValue or InlineTable
	path       []string      // from the root
	keys       []unstable.Range
	first, end int // the bytes of the key and value; for a header those of its key, for an inline table its {
	value      unstable.Range
	text       string // the value, if it is a string
	inline     bool   // within an inline table
}

// nodes returns all nodes of the text, in order.
func nodes(content []byte) ([]node, error) {
	p := unstable.Parser{}
	p.Reset(content)
	w := walk{}
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			n := w.named(e, nil)
			n.kind, n.first, n.end = unstable.Table, int(n.keys[0].Offset), ends(n.keys[len(n.keys)-1])
			if w.table = n.path; e.Kind == unstable.Table {
				w.found = append(w.found, n)
			}
		case unstable.KeyValue:
			w.keyValue(e, w.table, false)
		}
	}
	return w.found, p.Error()
}

type walk struct {
	table []string
	found []node
}

// named makes a node with its path below that of the table.
func (w *walk) named(e *unstable.Node, table []string) node {
	n := node{path: slices.Clone(table)}
	for it := e.Key(); it.Next(); {
		n.path = append(n.path, string(it.Node().Data))
		n.keys = append(n.keys, it.Node().Raw)
	}
	return n
}

func (w *walk) keyValue(e *unstable.Node, table []string, inline bool) {
	n := w.named(e, table)
	n.kind, n.first, n.end, n.value, n.inline = unstable.KeyValue, int(e.Raw.Offset), ends(e.Raw), e.Value().Raw, inline
	if e.Value().Kind == unstable.String {
		n.text = string(e.Value().Data)
	}
	w.found = append(w.found, n)
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	open := e.Value().Raw
	w.found = append(w.found, node{kind: unstable.InlineTable, path: n.path, first: int(open.Offset), end: ends(open), inline: true})
	for it := e.Value().Children(); it.Next(); {
		if it.Node().Kind == unstable.KeyValue {
			w.keyValue(it.Node(), n.path, true)
		}
	}
}

func ends(r unstable.Range) int { return int(r.Offset + r.Length) }

// lineEnd is the end of the line that contains the byte at, before its newline.
func lineEnd(content []byte, at int) int {
	newline := bytes.IndexByte(content[at:], '\n')
	if newline < 0 {
		return len(content)
	}
	end := at + newline
	if end > at && content[end-1] == '\r' {
		end--
	}
	return end
}

// indentAt is the white space at the beginning of the line that contains the byte.
func indentAt(content []byte, at int) string {
	line := content[bytes.LastIndexByte(content[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// eol is the newline of the file's first line.
func eol(content []byte) string {
	if i := bytes.IndexByte(content, '\n'); i > 0 && content[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
