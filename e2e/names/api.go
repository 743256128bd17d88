package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

func (s *source) openapi() (*openapi3.T, error) {
	text, err := s.read("shared/api/openapi.yaml")
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(text)
}

// operations are the paths with all that a caller may give and gets.
func operations(_ context.Context, s *source) (list []string, err error) {
	doc, err := s.openapi()
	if err != nil {
		return nil, err
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			add := func(format string, args ...any) {
				list = append(list, method+" "+path+" "+fmt.Sprintf(format, args...))
			}
			add("is %s, for %s", op.OperationID, security(*cmp.Or(op.Security, &doc.Security)))
			for _, p := range append(item.Parameters, op.Parameters...) {
				add("takes %s %s %s%s", p.Value.In, p.Value.Name, typeOf(p.Value.Schema), need(p.Value.Required))
			}
			if op.RequestBody != nil {
				for media, content := range op.RequestBody.Value.Content {
					add("takes body %s %s%s", media, typeOf(content.Schema), need(op.RequestBody.Value.Required))
				}
			}
			for status, r := range op.Responses.Map() {
				if len(r.Value.Content)+len(r.Value.Headers) == 0 {
					add("answers %s", status)
				}
				for media, content := range r.Value.Content {
					add("answers %s %s %s", status, media, typeOf(content.Schema))
				}
				for name, h := range r.Value.Headers {
					add("answers %s header %s %s", status, name, typeOf(h.Value.Schema))
				}
			}
		}
	}
	return list, nil
}

func security(all openapi3.SecurityRequirements) string {
	var names []string
	for _, one := range all {
		for name := range one {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(once(names), " or "), "everybody")
}

// schemas are the objects of the API with their members, and the values of enums.
func schemas(_ context.Context, s *source) (list []string, err error) {
	doc, err := s.openapi()
	if err != nil {
		return nil, err
	}
	for name, schema := range doc.Components.Schemas {
		list = append(list, name+" "+typeOf(schema)+closed(schema.Value))
		list = append(list, values(name, schema)...)
		for member, m := range schema.Value.Properties {
			list = append(list, name+"."+member+" "+typeOf(m)+need(slices.Contains(schema.Value.Required, member)))
			list = append(list, values(name+"."+member, m)...)
		}
	}
	return list, nil
}

func values(name string, s *openapi3.SchemaRef) (list []string) {
	if s.Ref != "" {
		return nil
	}
	for _, value := range s.Value.Enum {
		list = append(list, fmt.Sprintf("%s = %v", name, value))
	}
	return list
}

func typeOf(s *openapi3.SchemaRef) string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case len(s.Value.AllOf) == 1:
		return typeOf(s.Value.AllOf[0])
	case s.Value.Items != nil:
		return "array of " + typeOf(s.Value.Items)
	case s.Value.Type == nil:
		return "any"
	}
	name := strings.Join(s.Value.Type.Slice(), " or ")
	if s.Value.Format != "" {
		name += " (" + s.Value.Format + ")"
	}
	return name
}

func closed(s *openapi3.Schema) string {
	if has := s.AdditionalProperties.Has; has != nil && !*has {
		return ", closed"
	}
	return ""
}

func need(required bool) string {
	if required {
		return ", required"
	}
	return ""
}
