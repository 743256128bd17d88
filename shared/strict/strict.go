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
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("reading a document into %T: expected a non-nil pointer", v)
	}
	doc, isYAML, faults := read(data)
	if len(faults) > 0 {
		return faults
	}
	if doc == nil {
		return nil
	}
	tree, f := jsontree.Parse(doc)
	if f != nil {
		return fault.List{*f}
	}
	c := checker{data: doc, yaml: isYAML, faults: tree.Duplicates(fault.Root)}
	c.check(tree, target.Type().Elem(), fault.Root)
	if len(c.faults) > 0 {
		return c.faults
	}
	return decode(doc, v)
}

// read brings the document to JSON: nil when it is empty. JSON is recognised
// first, for YAML's grammar refuses some of it (indentation by tabs).
func read(data []byte) (doc []byte, isYAML bool, faults fault.List) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if json.Valid(data) {
		return data, false, nil
	}
	docs, err := Documents(data)
	if err != nil {
		return nil, true, asList(err)
	}
	switch len(docs) {
	case 0:
		return nil, true, nil
	case 1:
		return docs[0], true, nil
	}
	return nil, true, fault.List{fault.Root.Fault(
		fmt.Sprintf("holds %d YAML documents; expected one", len(docs)))}
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
