package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// MaxFaults bounds an answer: a large document can be wrong everywhere.
const MaxFaults = 100

// Check is every fault of the document n, at most MaxFaults, in the document's
// order. Messages never repeat a string of the document, which could be a secret.
func (s *Schema) Check(n *jsontree.Node) fault.List {
	c := checker{faults: n.Duplicates(fault.Root)}
	c.value(s, n, fault.Root)
	return c.faults[:min(len(c.faults), MaxFaults)]
}

// CheckText is every fault of text as a plain value, such as a path parameter.
func (s *Schema) CheckText(text string) fault.List {
	kind := jsontree.String
	switch {
	case s.kind == "integer":
		kind = jsontree.Number
	case s.kind == "boolean" && (text == "true" || text == "false"):
		kind = jsontree.Bool
	}
	return s.Check(&jsontree.Node{Kind: kind, Text: text})
}

type checker struct{ faults fault.List }

func (c *checker) fault(at fault.At, format string, args ...any) {
	c.faults = append(c.faults, at.Fault(fmt.Sprintf(format, args...)))
}

// kinds says what a value of each schema type has to be.
var kinds = map[string]jsontree.Kind{
	"object": jsontree.Object, "array": jsontree.List, "string": jsontree.String,
	"integer": jsontree.Number, "number": jsontree.Number, "boolean": jsontree.Bool,
}

func (c *checker) value(s *Schema, n *jsontree.Node, at fault.At) {
	if s == nil || len(c.faults) >= MaxFaults {
		return
	}
	for _, part := range s.allOf {
		c.value(part, n, at)
	}
	if want, ok := kinds[s.kind]; ok && n.Kind != want {
		c.fault(at, "found %s, expected %s", n.Kind, s.expected(want))
		return
	}
	switch n.Kind {
	case jsontree.Object:
		c.object(s, n, at)
	case jsontree.List:
		c.list(s, n, at)
	case jsontree.String:
		c.text(s, n.Text, at)
	case jsontree.Number:
		c.number(s, n.Text, at)
	}
}

// expected names what a value must be, with its choices where there are some.
func (s *Schema) expected(kind jsontree.Kind) string {
	switch {
	case len(s.enum) > 0:
		return "one of " + quoted(s.enum)
	case s.kind == "integer":
		return "an integer"
	}
	return kind.String()
}

func (c *checker) object(s *Schema, n *jsontree.Node, at fault.At) {
	for _, name := range s.required {
		if n.Get(name) == nil {
			c.fault(at.Key(name), "is missing")
		}
	}
	for _, m := range n.Members {
		if len(c.faults) >= MaxFaults {
			return
		}
		property, known := s.properties[m.Name]
		switch {
		case known:
			c.value(property, m.Value, at.Key(m.Name))
		case s.closed:
			c.fault(at.Key(m.Name), "%s", nearest.UnknownMember(m.Name, maps.Keys(s.properties)))
		default:
			c.value(s.others, m.Value, at.Key(m.Name))
		}
	}
}

func (c *checker) list(s *Schema, n *jsontree.Node, at fault.At) {
	count := uint64(len(n.Items))
	if s.maxItems != nil && count > *s.maxItems {
		c.fault(at, "has %d elements, expected at most %d", count, *s.maxItems)
		return
	}
	if s.minItems != nil && count < *s.minItems {
		c.fault(at, "has %d elements, expected at least %d", count, *s.minItems)
	}
	for i, item := range n.Items {
		c.value(s.items, item, at.Index(i))
	}
}

func (c *checker) text(s *Schema, text string, at fault.At) {
	length := uint64(utf8.RuneCountInString(text))
	switch {
	case len(s.enum) > 0 && !slices.Contains(s.enum, text):
		c.fault(at, "found another value, expected one of %s", quoted(s.enum))
	case s.minLength != nil && length < *s.minLength && length == 0:
		c.fault(at, "is empty")
	case s.minLength != nil && length < *s.minLength:
		c.fault(at, "has %d characters, expected at least %d", length, *s.minLength)
	case s.maxLength != nil && length > *s.maxLength:
		c.fault(at, "has %d characters, expected at most %d", length, *s.maxLength)
	case s.pattern != nil && !s.pattern.MatchString(text):
		c.fault(at, "does not match the pattern %s", s.pattern)
	case s.format == "uuid" && !isUUID(text):
		c.fault(at, "is not a UUID such as 6f9619ff-8b86-4d01-b42d-00cf4fc964ff")
	case s.format == "date-time" && !isTime(text):
		c.fault(at, "is not a time such as 2030-01-31T12:00:00Z (RFC 3339)")
	}
}

// isUUID takes the 36-character form alone; the parser takes others, too.
func isUUID(text string) bool {
	return len(text) == 36 && uuid.Validate(text) == nil
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func (c *checker) number(s *Schema, text string, at fault.At) {
	value, err := strconv.ParseFloat(text, 64)
	if s.kind == "integer" {
		var whole int64
		whole, err = strconv.ParseInt(text, 10, 64)
		value = float64(whole)
	}
	switch {
	case err != nil && s.kind == "integer":
		c.fault(at, "found the number %.40s, expected an integer of 64 bits without fraction and exponent", text)
	case err != nil:
		c.fault(at, "is a number that is too large")
	case s.minimum != nil && value < *s.minimum:
		c.fault(at, "is %s, expected at least %s", text, bound(*s.minimum))
	case s.maximum != nil && value > *s.maximum:
		c.fault(at, "is %s, expected at most %s", text, bound(*s.maximum))
	}
}

func bound(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func quoted(values []string) string {
	marked := make([]string, len(values))
	for i, v := range values {
		marked[i] = strconv.Quote(v)
	}
	return strings.Join(marked, ", ")
}
