// Package schema checks a JSON document against a schema of the OpenAPI document
// and reports every fault at once, in words for people and with JSON pointers. It
// enforces the few keywords that the document uses and refuses to compile a
// schema with any other: nothing the document demands is ever left unchecked.
package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	kind                 string
	format               string
	enum                 []string
	pattern              *regexp.Regexp
	minimum, maximum     *float64
	minLength, maxLength *uint64
	minItems, maxItems   *uint64
	items                *Schema
	properties           map[string]*Schema
	required             []string
	closed               bool    // additionalProperties: false
	others               *Schema // of additional properties
	allOf                []*Schema
}

// enforced are the keywords that Check enforces.
var enforced = []string{
	"type", "format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
	"minItems", "maxItems", "items", "properties", "required", "additionalProperties", "allOf",
}

// annotations are the keywords that ask for nothing.
var annotations = []string{"description", "title", "example", "default", "deprecated"}

// formats that Check knows; int64 is what an integer without a format is, too.
var formats = []string{"", "uuid", "date-time", "int64"}

// Compile makes a Schema. An error names the keyword that is not enforced, and
// is a mistake in the OpenAPI document.
func Compile(ref *openapi3.SchemaRef) (*Schema, error) {
	c := compiler{done: make(map[*openapi3.Schema]*Schema)}
	return c.compile(ref)
}

// compiler remembers what it has begun, so that a schema may contain itself.
type compiler struct {
	done map[*openapi3.Schema]*Schema
}

func (c *compiler) compile(ref *openapi3.SchemaRef) (*Schema, error) {
	if ref == nil || ref.Value == nil {
		return nil, nil
	}
	in := ref.Value
	if s, ok := c.done[in]; ok {
		return s, nil
	}
	if err := onlyKnownKeywords(in); err != nil {
		return nil, err
	}
	s := &Schema{
		format: in.Format, minimum: in.Min, maximum: in.Max, maxLength: in.MaxLength,
		maxItems: in.MaxItems, required: in.Required,
		closed: in.AdditionalProperties.Has != nil && !*in.AdditionalProperties.Has,
	}
	c.done[in] = s
	if in.MinLength > 0 {
		s.minLength = &in.MinLength
	}
	if in.MinItems > 0 {
		s.minItems = &in.MinItems
	}
	return s, c.fill(s, in)
}

// fill compiles what can fail or contains further schemas.
func (c *compiler) fill(s *Schema, in *openapi3.Schema) (err error) {
	if in.Type != nil {
		if len(*in.Type) != 1 {
			return fmt.Errorf("a schema of the types %v: only one type is enforced", *in.Type)
		}
		s.kind = (*in.Type)[0]
	}
	for _, v := range in.Enum {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("enum value %v: only strings are enforced", v)
		}
		s.enum = append(s.enum, text)
	}
	if in.Pattern != "" {
		if s.pattern, err = regexp.Compile(in.Pattern); err != nil {
			return fmt.Errorf("pattern of a schema: %w", err)
		}
	}
	if s.items, err = c.compile(in.Items); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	if s.others, err = c.compile(in.AdditionalProperties.Schema); err != nil {
		return fmt.Errorf("additionalProperties: %w", err)
	}
	for _, part := range in.AllOf {
		compiled, err := c.compile(part)
		if err != nil {
			return fmt.Errorf("allOf: %w", err)
		}
		s.allOf = append(s.allOf, compiled)
	}
	s.properties = make(map[string]*Schema, len(in.Properties))
	for name, property := range in.Properties {
		if s.properties[name], err = c.compile(property); err != nil {
			return fmt.Errorf("property %s: %w", name, err)
		}
	}
	return nil
}

func onlyKnownKeywords(in *openapi3.Schema) error {
	text, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("reading a schema: %w", err)
	}
	var keywords map[string]json.RawMessage
	if err := json.Unmarshal(text, &keywords); err != nil {
		return fmt.Errorf("a schema is %s: expected an object", text)
	}
	for name := range keywords {
		if !slices.Contains(enforced, name) && !slices.Contains(annotations, name) && !strings.HasPrefix(name, "x-") {
			return fmt.Errorf("keyword %q is not enforced here; teach controller/httpapi/schema first", name)
		}
	}
	if !slices.Contains(formats, in.Format) {
		return fmt.Errorf("format %q is not enforced; known are %s", in.Format, strings.Join(formats[1:], ", "))
	}
	return nil
}
