// Package strict reads the project's own documents (configuration files and
// what `apply --filename` is given), in YAML or JSON, and accepts nothing that it
// does not understand: a misspelled key in a configuration file is an error,
// never a silent default. It is not for Tacker's request bodies, whose unknown
// attributes are kept; see package params for those.
package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	kjson "sigs.k8s.io/json"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Unmarshal reads one YAML or JSON document into v, a non-nil pointer, by the
// json tags of its type. Names are case sensitive. A null value, and an empty
// document, leave the field or v as it was: defaults set beforehand stay.
//
// Everything that is wrong is returned at once as a fault.List with a JSON
// pointer for each place: names that v's type does not know, names given twice,
// values of the wrong type or outside the range of theirs, and what a type's own
// UnmarshalJSON or UnmarshalText refuses. No message repeats a value of the
// document, which could be a secret, except what such a method says. When there
// is a fault, v is not touched.
func Unmarshal(data []byte, v any) error {
	doc, err := check(data, v)
	if err != nil || doc == nil {
		return err
	}
	return decode(doc, v)
}

// UnmarshalKnown is Unmarshal for a caller that has checks of its own: v gets what it can have
// of a document with faults, so that those checks find the rest. readable is false if nothing
// of the document could be read.
func UnmarshalKnown(data []byte, v any) (readable bool, err error) {
	doc, err := check(data, v)
	switch {
	case err == nil && doc != nil:
		err = decode(doc, v)
	case doc != nil:
		_ = kjson.UnmarshalCaseSensitivePreserveInts(doc, v) // check has said what is wrong
	}
	return err == nil || doc != nil, err
}

// check is the document as JSON, nil if it is empty or cannot be read, and all that is wrong
// with it for the type of v.
func check(data []byte, v any) (doc []byte, err error) {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return nil, fmt.Errorf("reading a document into %T: expected a non-nil pointer", v)
	}
	doc, isYAML, faults := read(data)
	if doc == nil {
		return nil, faults.Err()
	}
	tree, f := jsontree.Parse(doc)
	if f != nil {
		return nil, fault.List{*f}
	}
	c := checker{data: doc, yaml: isYAML, faults: append(faults, tree.Duplicates(fault.Root)...)}
	c.check(tree, target.Type().Elem(), fault.Root)
	return doc, c.faults.Err()
}

// read brings the document to JSON: nil when it is empty. JSON is recognised
// first, for YAML's grammar refuses some of it (indentation by tabs).
func read(data []byte) (doc []byte, isYAML bool, faults fault.List) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if json.Valid(data) {
		return data, false, nil
	}
	docs, double, err := documents(data)
	switch {
	case err != nil:
		return nil, true, append(double, asList(err)...)
	case len(docs) == 0:
		return nil, true, double
	case len(docs) == 1:
		return docs[0], true, double
	}
	return nil, true, append(double, fault.Root.Fault(
		fmt.Sprintf("holds %d YAML documents; expected one", len(docs))))
}

// decode is the last word: what it refuses after the check found nothing is
// reported too, if only with the place that the decoder knows.
func decode(doc []byte, v any) error {
	unknown, err := kjson.UnmarshalStrict(doc, v)
	if err != nil {
		return fault.List{fault.Root.Fault(err.Error())}
	}
	var faults fault.List
	for _, u := range unknown {
		faults = append(faults, fault.Root.Fault(u.Error()))
	}
	return faults.Err()
}
