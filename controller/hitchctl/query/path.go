// Package query picks from what the controller answers: which objects of a list, in which
// order, and which parts of them. Its languages are kubectl's: label selectors and JSONPath.
package query

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	kjson "sigs.k8s.io/json"
)

// Path is a JSONPath template: {.items[*].name}. What an object lacks is printed as nothing.
type Path struct {
	text     string
	compiled *jsonpath.JSONPath
}

// ParsePath reads a template. If it has no braces it is one expression, whose first dot
// may be missing too: status.facts.hostname.
func ParsePath(text string) (*Path, error) {
	full := text
	if !strings.Contains(text, "{") {
		full = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	compiled := jsonpath.New("jsonpath").AllowMissingKeys(true)
	if err := compiled.Parse(full); err != nil {
		return nil, fmt.Errorf("%q is no JSONPath: %w; expected one such as {.items[*].name}", text, err)
	}
	return &Path{text, compiled}, nil
}

// Print writes what the template says of a value, which is taken as its JSON.
func (p *Path) Print(to io.Writer, value any) error {
	tree, err := asJSON(value)
	if err != nil {
		return err
	}
	if err := p.compiled.Execute(to, tree); err != nil {
		return fmt.Errorf("printing %s: %w", p.text, err)
	}
	return nil
}

// first is the first thing that the expression finds in a value, nil if there is none.
func (p *Path) first(value any) (any, error) {
	tree, err := asJSON(value)
	if err != nil {
		return nil, err
	}
	found, err := p.compiled.FindResults(tree)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", p.text, err)
	}
	if len(found) == 0 || len(found[0]) == 0 {
		return nil, nil
	}
	return found[0][0].Interface(), nil
}

// asJSON is a value as the members and elements of its JSON, integers kept whole.
func asJSON(value any) (tree any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer as JSON: %w", err)
	}
	return tree, nil
}
