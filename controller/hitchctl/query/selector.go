package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/nearest"
)

// Label is a name and a value of each object of a kind, by which a list can be narrowed.
type Label[T any] struct {
	Name string
	// Values are all that there are.
	Values []string
	Of     func(T) string
}

// Selector is a list of requirements that an object has to meet, all of them.
type Selector[T any] []requirement[T]

type requirement[T any] struct {
	label Label[T]
	value string
	not   bool
}

// ParseSelector reads a selector: role=worker,state!=Lost. Unknown names and
// values are refused, because an empty list would look like an answer.
func ParseSelector[T any](text string, labels []Label[T]) (Selector[T], error) {
	var s Selector[T]
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		r, err := parseRequirement(part, labels)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return s, nil
}

func parseRequirement[T any](text string, labels []Label[T]) (r requirement[T], err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return r, fmt.Errorf("%q is no selector; expected name=value or name!=value, with commas between several", text)
	}
	name, r.not = strings.CutSuffix(name, "!")
	name, value = strings.TrimSpace(name), strings.TrimSpace(strings.TrimPrefix(value, "="))
	i := slices.IndexFunc(labels, func(l Label[T]) bool { return l.Name == name })
	if i < 0 {
		return r, nearest.Unknown("name", name, LabelNames(labels))
	}
	r.label, r.value = labels[i], value
	if !slices.Contains(r.label.Values, value) {
		return r, fmt.Errorf("%s has no value %q%s", name, value, nearest.Hint(value, r.label.Values))
	}
	return r, nil
}

// LabelNames are the names by which a kind can be narrowed.
func LabelNames[T any](labels []Label[T]) []string {
	var names []string
	for _, l := range labels {
		names = append(names, l.Name)
	}
	return names
}

// Matches says whether an object meets the selector.
func (s Selector[T]) Matches(object T) bool {
	for _, r := range s {
		if (r.label.Of(object) == r.value) == r.not {
			return false
		}
	}
	return true
}
