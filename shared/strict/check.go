package strict

import (
	"encoding"
	"encoding/json"
	"errors"
	"maps"
	"reflect"

	kjson "sigs.k8s.io/json"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// checker compares a document with a Go type, value by value. A decoder stops at
// the first value of a wrong type and knows no places; this finds them all.
type checker struct {
	data   []byte
	yaml   bool // data was YAML, where what has no quotes may be a number or a boolean
	faults fault.List
}

func (c *checker) fault(at fault.At, message string) {
	c.faults = append(c.faults, at.Fault(message))
}

func (c *checker) check(n *jsontree.Node, t reflect.Type, at fault.At) {
	if n.Kind == jsontree.Null {
		return
	}
	if decodesItself(t) {
		c.leaf(n, t, at)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		c.check(n, t.Elem(), at)
	case reflect.Interface:
	case reflect.Struct:
		c.object(n, t, at)
	case reflect.Map:
		c.mapping(n, t, at)
	case reflect.Slice, reflect.Array:
		c.list(n, t, at)
	default:
		c.leaf(n, t, at)
	}
}

func (c *checker) object(n *jsontree.Node, t reflect.Type, at fault.At) {
	if !c.expect(n, jsontree.Object, at) {
		return
	}
	known := fieldsOf(t)
	for _, m := range n.Members {
		field, ok := known[m.Name]
		if !ok {
			c.fault(at.Key(m.Name), nearest.UnknownMember(m.Name, maps.Keys(known)))
			continue
		}
		c.check(m.Value, field, at.Key(m.Name))
	}
}

func (c *checker) mapping(n *jsontree.Node, t reflect.Type, at fault.At) {
	if !c.expect(n, jsontree.Object, at) {
		return
	}
	for _, m := range n.Members {
		c.check(m.Value, t.Elem(), at.Key(m.Name))
	}
}

func (c *checker) list(n *jsontree.Node, t reflect.Type, at fault.At) {
	if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
		c.leaf(n, t, at) // base64 text
		return
	}
	if !c.expect(n, jsontree.List, at) {
		return
	}
	for i, item := range n.Items {
		c.check(item, t.Elem(), at.Index(i))
	}
}

func (c *checker) expect(n *jsontree.Node, want jsontree.Kind, at fault.At) bool {
	if n.Kind != want {
		c.fault(at, "found "+n.Kind.String()+", expected "+want.String())
	}
	return n.Kind == want
}

// leaf lets the decoder check one value alone.
func (c *checker) leaf(n *jsontree.Node, t reflect.Type, at fault.At) {
	err := kjson.UnmarshalCaseSensitivePreserveInts(c.data[n.Start:n.End], reflect.New(t).Interface())
	var wrong *json.UnmarshalTypeError
	var inner fault.List
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		message := "found " + n.Kind.String() + ", expected " + describe(t)
		if c.yaml && (n.Kind == jsontree.Number || n.Kind == jsontree.Bool) && t.Kind() == reflect.String {
			message += "; in YAML, put it in quotes"
		}
		c.fault(at, message)
	case errors.As(err, &inner):
		for _, f := range inner {
			c.fault(at+fault.At(f.Pointer), f.Message)
		}
	default:
		c.fault(at, err.Error())
	}
}

// describe names what a Go type takes in the words of the document.
func describe(t reflect.Type) string {
	switch k := t.Kind(); {
	case t.Implements(textUnmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler):
		return jsontree.String.String()
	case k == reflect.Bool:
		return jsontree.Bool.String()
	case k == reflect.String:
		return jsontree.String.String()
	case k >= reflect.Int && k <= reflect.Int64:
		return "an integer that fits in " + bits(t) + " bits"
	case k >= reflect.Uint && k <= reflect.Uintptr:
		return "an integer from 0 that fits in " + bits(t) + " bits"
	case k == reflect.Float32 || k == reflect.Float64:
		return jsontree.Number.String()
	case k == reflect.Slice:
		return "base64 text"
	}
	return "another type"
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decodesItself reports whether the type, or its pointer, has its own reading.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}
