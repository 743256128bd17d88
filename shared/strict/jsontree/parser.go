package jsontree

import "encoding/json"

// parser builds the tree from the token stream of data, which is known to be
// valid JSON: no token can fail.
type parser struct {
	data    []byte
	dec     *json.Decoder
	values  int
	tooDeep bool
	tooMany bool
}

// next is the next token and where it starts. Separators belong to no token, so
// the start is the first byte after the previous token that is not one.
func (p *parser) next() (json.Token, int) {
	start := int(p.dec.InputOffset())
	for start < len(p.data) && isSeparator(p.data[start]) {
		start++
	}
	token, err := p.dec.Token()
	if err != nil {
		// Valid JSON never comes here; null keeps the tree well formed.
		return nil, start
	}
	return token, start
}

func isSeparator(b byte) bool {
	switch b {
	case ' ', '\t', '\n', '\r', ',', ':':
		return true
	}
	return false
}

func (p *parser) value(depth int) *Node {
	token, start := p.next()
	n := &Node{Start: start}
	p.values++
	p.tooMany = p.tooMany || p.values > MaxValues
	switch t := token.(type) {
	case nil:
		n.Kind = Null
	case bool:
		n.Kind, n.Text = Bool, "false"
		if t {
			n.Text = "true"
		}
	case json.Number:
		n.Kind, n.Text = Number, t.String()
	case string:
		n.Kind, n.Text = String, t
	case json.Delim:
		if depth >= MaxDepth {
			p.tooDeep = true
			return n
		}
		p.container(n, t, depth)
	}
	n.End = int(p.dec.InputOffset())
	return n
}

// container reads the rest of a list or object whose opening token was read.
func (p *parser) container(n *Node, open json.Delim, depth int) {
	n.Kind = List
	if open == '{' {
		n.Kind = Object
	}
	for p.dec.More() && !p.tooDeep && !p.tooMany {
		if n.Kind == List {
			n.Items = append(n.Items, p.value(depth+1))
			continue
		}
		name, _ := p.next()
		s, _ := name.(string)
		n.Members = append(n.Members, Member{Name: s, Value: p.value(depth + 1)})
	}
	if !p.tooDeep && !p.tooMany {
		p.next()
	}
}
