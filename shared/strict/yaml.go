package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Documents splits a YAML stream and converts each document to JSON the way
// Kubernetes does (YAML 1.1: an unquoted `yes` is true; aliases and merge keys
// are resolved). Documents without content are left out. The error is a
// fault.List: what is not YAML, and every key that a mapping gives twice, whose
// pointer is within its document; with several documents the message says which. What
// would take far more memory than its text is refused before it is read.
func Documents(data []byte) ([]json.RawMessage, error) {
	docs, double, err := documents(data)
	if err != nil {
		return nil, append(double, asList(err)...)
	}
	if len(double) > 0 {
		return nil, double
	}
	return docs, nil
}

// documents is Documents with the keys that are given twice apart: each has its last value.
func documents(data []byte) (docs []json.RawMessage, double fault.List, err error) {
	if why := tooLarge(data); why != "" {
		return nil, nil, fault.List{fault.Root.Fault(why)}
	}
	var (
		values = yamlv2.NewDecoder(bytes.NewReader(data))
		keys   = yamlv2.NewDecoder(bytes.NewReader(data))
	)
	for number := 1; ; number++ {
		doc, err := next(values)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && number > maxDocuments {
			err = fault.List{fault.Root.Fault(fmt.Sprintf("holds more than %d YAML documents", maxDocuments))}
		}
		if err != nil {
			return nil, double, unreadable(data, err)
		}
		double = append(double, doubleKeys(keys, number)...)
		if doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs, double, nil
}

// next is the next document as JSON, nil if it has no content.
func next(d *yamlv2.Decoder) (json.RawMessage, error) {
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	if err := checkSize(value); err != nil {
		return nil, err
	}
	text, err := yamlv2.Marshal(value)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(text)
}

// maxDoubleKeys bounds the list: the places in a document of long names that are all given
// twice could together be far larger than the document.
const maxDoubleKeys = 100

// doubleKeys reads the next document once more, into slices that keep a key
// given twice. (They drop merge keys, so they serve for nothing else.)
func doubleKeys(d *yamlv2.Decoder, number int) fault.List {
	var doc keyed
	if err := d.Decode(&doc); err != nil {
		return asList(err)
	}
	var faults fault.List
	doc.walk(doc.value, nil, func(p *place) {
		if len(faults) == maxDoubleKeys {
			return
		}
		message := "is given more than once in one mapping; keep the one that is meant"
		if number > 1 {
			message += fmt.Sprintf(" (YAML document %d)", number)
		}
		faults = append(faults, p.at().Fault(message))
	})
	return faults
}

// unreadable says what is wrong with a stream that cannot be read. One that begins as JSON was
// meant to be JSON.
func unreadable(data []byte, err error) fault.List {
	var limit fault.List
	if errors.As(err, &limit) {
		return limit
	}
	if begins := bytes.TrimSpace(data); len(begins) > 0 && bytes.ContainsAny(begins[:1], "{[") {
		if _, wrong := jsontree.Parse(data); wrong != nil {
			return fault.List{*wrong}
		}
	}
	return asList(err)
}

// asList is the faults of a stream; a parser's error is one, without its prefix.
func asList(err error) fault.List {
	var list fault.List
	if errors.As(err, &list) {
		return list
	}
	return fault.List{fault.Root.Fault("is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))}
}
