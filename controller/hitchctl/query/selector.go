package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/nearest"
)

// Field is a name and a value of each object of a kind, by which a list can be narrowed.
type Field[T any] struct {
	Name string
	// Values are all that there are.
	Values []string
	Of     func(T) string
}

// Selector is a list of requirements that an object has to meet, all of them.
type Selector[T any] []requirement[T]

type requirement[T any] struct {
	field Field[T]
	value string
	not   bool
}

// ParseSelector reads a selector: role=worker,state!=Lost. A name that is no field is that of a
// label, unless labels is nil. Other names, and unknown values of a field, are refused, because
// an empty list would look like an answer.
func ParseSelector[T any](text string, fields []Field[T], labels func(T) map[string]string) (Selector[T], error) {
	var s Selector[T]
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		r, err := parseRequirement(part, fields, labels)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return s, nil
}

func parseRequirement[T any](text string, fields []Field[T], labels func(T) map[string]string) (r requirement[T], err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return r, fmt.Errorf("%q is no selector; expected name=value or name!=value, with commas between several", text)
	}
	name, r.not = strings.CutSuffix(name, "!")
	name, value = strings.TrimSpace(name), strings.TrimSpace(strings.TrimPrefix(value, "="))
	r.value = value
	switch i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.Name == name }); {
	case i >= 0:
		r.field = fields[i]
	case labels == nil:
		return r, nearest.Unknown("name", name, FieldNames(fields))
	default:
		r.field = Field[T]{Name: name, Of: func(object T) string { return labels(object)[name] }}
		return r, nil
	}
	if !slices.Contains(r.field.Values, value) {
		return r, fmt.Errorf("%s has no value %q%s", name, value, nearest.Hint(value, r.field.Values))
	}
	return r, nil
}

// FieldNames are the names by which a kind can be narrowed.
func FieldNames[T any](fields []Field[T]) []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

// Matches says whether an object meets the selector.
func (s Selector[T]) Matches(object T) bool {
	for _, r := range s {
		if (r.field.Of(object) == r.value) == r.not {
			return false
		}
	}
	return true
}
