package strict

import (
	"reflect"
	"strconv"
	"strings"
)

// fieldsOf is the type of each member that encoding/json reads into the struct
// type t, by name. Fields of embedded structs count as t's own, as there, and
// an outer field hides an embedded one of the same name.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" {
			continue
		}
		if inner := structOf(f.Type); f.Anonymous && name == "" && inner != nil {
			embedded = append(embedded, inner)
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Type
	}
	for _, inner := range embedded {
		for name, ft := range fieldsOf(inner) {
			if _, hidden := fields[name]; !hidden {
				fields[name] = ft
			}
		}
	}
	return fields
}

// structOf is t, or what it points to, if that is a struct; else nil.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func bits(t reflect.Type) string { return strconv.Itoa(t.Bits()) }
