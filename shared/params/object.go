package params

import (
	"slices"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// object is one JSON object while it is read. Each attribute that is asked for
// becomes known; close reports the others. A nil object is one that was not
// there or was refused: it has no attributes and reports nothing.
type object struct {
	r     *reader
	at    fault.At
	node  *jsontree.Node
	known []string
}

// presence reports whether an attribute has to be there.
type presence bool

const (
	required presence = true
	optional presence = false
)

// attribute is the value called name and its place; nil if it is absent,
// which is a fault if it is required, or of another kind than those wanted. An optional
// one that is the empty text counts as absent: templates write that for no value.
func (o *object) attribute(name string, p presence, want ...jsontree.Kind) (*jsontree.Node, fault.At) {
	if o == nil {
		return nil, ""
	}
	o.known = append(o.known, name)
	n, at := o.node.Get(name), o.at.Key(name)
	if n == nil {
		if p == required {
			o.r.fault(o.at, "has no attribute %q, which is required", name)
		}
		return nil, at
	}
	if p == optional && emptyText(n) {
		o.r.warn(at, "is empty; taken as absent")
		return nil, at
	}
	if !slices.Contains(want, n.Kind) {
		o.r.wrongKind(at, n.Kind, p, want...)
		return nil, at
	}
	return n, at
}

func emptyText(n *jsontree.Node) bool { return n.Kind == jsontree.String && n.Text == "" }

// has reports whether an attribute is given.
func (o *object) has(name string) bool {
	n := o.node.Get(name)
	return n != nil && !emptyText(n)
}

func (r *reader) wrongKind(at fault.At, found jsontree.Kind, p presence, want ...jsontree.Kind) {
	message := "found " + found.String() + ", expected " + want[0].String()
	for _, k := range want[1:] {
		message += " or " + k.String()
	}
	if found == jsontree.Null && p == optional {
		message += "; leave the attribute out if there is nothing to say"
	}
	r.fault(at, "%s", message)
}

// text reads a string by its grammar; the zero T where it is absent or refused.
func text[T any](o *object, name string, p presence, grammar func(string) (T, error)) T {
	var zero T
	n, at := o.attribute(name, p, jsontree.String)
	if n == nil {
		return zero
	}
	if n.Text == "" {
		o.r.fault(at, "is empty")
		return zero
	}
	value, err := grammar(n.Text)
	if err != nil {
		o.r.fault(at, "%v", err)
		return zero
	}
	return value
}

// normal reads a text by a grammar that may take it as another one, and says so.
func (o *object) normal(name string, p presence, parse func(string) (string, error)) string {
	value := text(o, name, p, parse)
	if value != "" {
		o.takenAs(o.key(name), o.node.Get(name).Text, value)
	}
	return value
}

// takenAs warns if a text is taken as another one.
func (o *object) takenAs(at fault.At, given, taken string) {
	if given != taken {
		o.r.warn(at, "%s is taken as %s", grammar.Show(given), grammar.Show(taken))
	}
}

// secret reads a text that no message may repeat.
func (o *object) secret(name string) Secret {
	n, _ := o.attribute(name, optional, jsontree.String)
	if n == nil {
		return Secret{}
	}
	return NewSecret(n.Text)
}

// object reads an object; nil if it is absent or refused.
func (o *object) object(name string, p presence) *object {
	n, at := o.attribute(name, p, jsontree.Object)
	if n == nil {
		return nil
	}
	return &object{r: o.r, at: at, node: n}
}

// objects reads a list of objects. An element that is no object is nil, so that
// the list keeps its length; a required list has to have an element.
func (o *object) objects(name string, p presence) []*object {
	n, at := o.attribute(name, p, jsontree.List)
	if n == nil {
		return nil
	}
	if p == required && len(n.Items) == 0 {
		o.r.fault(at, "is empty; at least one element is required")
	}
	list := make([]*object, len(n.Items))
	for i, item := range n.Items {
		if item.Kind != jsontree.Object {
			o.r.wrongKind(at.Index(i), item.Kind, required, jsontree.Object)
			continue
		}
		list[i] = &object{r: o.r, at: at.Index(i), node: item}
	}
	return list
}

// texts reads an optional list of strings by their grammar. One that is refused is empty, so that
// the list keeps its length; none may be given twice.
func (o *object) texts(name string, parse func(string) (string, error)) []string {
	n, at := o.attribute(name, optional, jsontree.List)
	if n == nil {
		return nil
	}
	var list []string
	for i, item := range n.Items {
		value := ""
		if item.Kind != jsontree.String {
			o.r.wrongKind(at.Index(i), item.Kind, required, jsontree.String)
		} else if parsed, err := parse(item.Text); err != nil {
			o.r.fault(at.Index(i), "%v", err)
		} else if slices.Contains(list, parsed) {
			o.r.fault(at.Index(i), "is %s, which the list has already", grammar.Show(parsed))
		} else {
			value = parsed
		}
		list = append(list, value)
	}
	return list
}

// key is the place of an attribute, "" for a nil object.
func (o *object) key(name string) fault.At {
	if o == nil {
		return ""
	}
	return o.at.Key(name)
}

// close warns about each attribute that nothing asked for.
func (o *object) close() {
	if o == nil {
		return
	}
	warned := make(map[string]bool)
	for _, m := range o.node.Members {
		if warned[m.Name] || slices.Contains(o.known, m.Name) {
			continue
		}
		warned[m.Name] = true
		message := "is not known to nodehitch: it is kept and has no effect"
		if o.r.warnings.full() {
			o.r.warn(o.at, "%s", message) // only counted
			continue
		}
		if near := nearest.Name(m.Name, o.known); near != "" {
			message += "; did you mean " + grammar.Show(near) + "?"
		}
		o.r.warn(o.at.Key(m.Name), "%s", message)
	}
}
