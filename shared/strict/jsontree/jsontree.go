// Package jsontree reads JSON into a tree that keeps what encoding/json throws
// away: the order of members, members given twice, the text of numbers, and
// where in the document each value stands. It is for validation that names
// places; it decodes into no Go type.
package jsontree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// MaxDepth is how deep lists and objects may nest. Every document that this
// project reads needs fewer than ten levels; the limit keeps a hostile one from
// costing more than its size.
const MaxDepth = 100

// MaxValues is how many values a document may have: some hundred thousand small
// ones take a hundred times the memory of their text. Every document that this
// project reads has fewer than ten for each server of a stack.
const MaxValues = 100_000

// Kind is the JSON type of a value.
type Kind int

// The JSON types.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Object
)

// String is the kind as a fault message says it: "found a number".
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// Node is one value of the document.
type Node struct {
	Kind Kind
	// Text is the value of a string (unescaped), the literal of a number as it
	// was written, and "true" or "false" of a boolean.
	Text string
	// Items are the elements of a list.
	Items []*Node
	// Members are the members of an object in the order of the document; a name
	// that was given twice is here twice.
	Members []Member
	// Start and End are byte offsets: the value is data[Start:End].
	Start, End int
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value *Node
}

// Get is the value of the member called name, the last one if it is given twice (as in
// encoding/json), nil if there is none.
func (n *Node) Get(name string) *Node {
	for i := len(n.Members) - 1; i >= 0; i-- {
		if n.Members[i].Name == name {
			return n.Members[i].Value
		}
	}
	return nil
}

// Parse reads one JSON document. The fault it can return concerns the document
// as a whole: not JSON (with line and column), not UTF-8, nested deeper than
// MaxDepth, of more than MaxValues, or empty. Members given twice are no fault here; see Duplicates.
func Parse(data []byte) (*Node, *fault.Fault) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, rootFault("is empty; expected a JSON document")
	}
	if !utf8.Valid(data) {
		return nil, rootFault("is not UTF-8 text; JSON has to be")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, rootFault(syntaxMessage(data, err))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	p := parser{data: data, dec: dec}
	n := p.value(0)
	if p.tooMany {
		return nil, rootFault(fmt.Sprintf("has more than %d values", MaxValues))
	}
	if p.tooDeep {
		return nil, rootFault(fmt.Sprintf("nests lists and objects deeper than %d levels", MaxDepth))
	}
	return n, nil
}

func rootFault(message string) *fault.Fault {
	f := fault.Root.Fault(message)
	return &f
}

// syntaxMessage places a syntax error by line and column. It leaves out the
// text around it, which may be a password.
func syntaxMessage(data []byte, err error) string {
	if errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(&json.RawMessage{}), io.ErrUnexpectedEOF) {
		return "is not whole JSON: it ends at " + position(bytes.TrimRight(data, " \t\r\n")) + "; was it cut off?"
	}
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return "is not JSON"
	}
	return fmt.Sprintf("is not JSON: %v at %s", syntax, position(data[:min(int(syntax.Offset), len(data))]))
}

// position is where a text ends.
func position(text []byte) string {
	line := 1 + bytes.Count(text, []byte("\n"))
	column := utf8.RuneCount(text[bytes.LastIndexByte(text, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line, column)
}
