package dockerconf

import (
	"bytes"
	"slices"

	"github.com/tailscale/hujson"
)

// space returns the white space before and after an item of a list.
type space[T any] func(item *T) (before, after *hujson.Extra)

func ofMember(m *hujson.ObjectMember) (before, after *hujson.Extra) {
	return &m.Name.BeforeExtra, &m.Value.AfterExtra
}

func ofElement(e *hujson.Value) (before, after *hujson.Extra) {
	return &e.BeforeExtra, &e.AfterExtra
}

// without removes the chosen items. The new first item stands where the old one stood, and
// the last one has no comma after it.
func without[T any](items []T, space space[T], chosen func(T) bool) []T {
	if len(items) == 0 {
		return nil
	}
	before, _ := space(&items[0])
	first := *before
	items = slices.DeleteFunc(items, chosen)
	if len(items) > 0 {
		before, _ = space(&items[0])
		_, after := space(&items[len(items)-1])
		*before, *after = first, nil
	}
	return items
}

// lead is the white space before an item that is put at the end of a list: that of the last
// item or, in an empty list with a closing bracket on its own line, a new line one level
// deeper than the bracket. tail is the white space before the closing bracket.
func lead[T any](d *document, items []T, space space[T], tail hujson.Extra) hujson.Extra {
	if len(items) == 0 {
		newline := bytes.LastIndexByte(tail, '\n')
		if newline < 0 {
			return nil
		}
		return slices.Concat(d.eol(), tail[newline+1:], d.indent())
	}
	before, _ := space(&items[len(items)-1])
	if len(items) == 1 && len(*before) == 0 {
		return hujson.Extra(" ")
	}
	return *before
}

// set puts a member with that name into the object. value gets the white space before the
// name.
func (d *document) set(object *hujson.Object, name string, value func(lead hujson.Extra) hujson.ValueTrimmed) {
	for i := range object.Members {
		if m := &object.Members[i]; key(*m) == name {
			m.Value.Value = value(m.Name.BeforeExtra)
			return
		}
	}
	before := lead(d, object.Members, ofMember, object.AfterExtra)
	object.Members = append(object.Members, newMember(before, name, value(before)))
}

// drop returns the text without the member with that name; nil if no setting is left.
func (d *document) drop(object *hujson.Object, name string) []byte {
	object.Members = without(object.Members, ofMember, func(m hujson.ObjectMember) bool { return key(m) == name })
	if len(d.settings.Members) == 0 {
		return nil
	}
	return d.root.Pack()
}

func key(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

func newMember(before hujson.Extra, name string, value hujson.ValueTrimmed) hujson.ObjectMember {
	return hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: before, Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	}
}

// nested is an object with one member, on lines of its own if lead ends a line.
func (d *document) nested(lead hujson.Extra, name string, value hujson.ValueTrimmed) *hujson.Object {
	inside := d.deeper(lead)
	if inside == nil {
		lead = nil
	}
	return &hujson.Object{Members: []hujson.ObjectMember{newMember(inside, name, value)}, AfterExtra: lead}
}

// deeper is the white space before a name one level below lead, nil if lead ends no line.
func (d *document) deeper(lead hujson.Extra) hujson.Extra {
	if !bytes.ContainsRune(lead, '\n') {
		return nil
	}
	return slices.Concat(lead, d.indent())
}

// indent is one level of indentation, taken from the file's first member.
func (d *document) indent() hujson.Extra {
	if len(d.settings.Members) > 0 {
		before := d.settings.Members[0].Name.BeforeExtra
		if newline := bytes.LastIndexByte(before, '\n'); newline >= 0 && len(before) > newline+1 {
			return before[newline+1:]
		}
	}
	return hujson.Extra("  ")
}

// eol is the newline of the file's first line.
func (d *document) eol() hujson.Extra {
	if i := bytes.IndexByte(d.text, '\n'); i > 0 && d.text[i-1] == '\r' {
		return hujson.Extra("\r\n")
	}
	return hujson.Extra("\n")
}
