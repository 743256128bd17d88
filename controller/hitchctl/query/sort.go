package query

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Sort orders items by what a JSONPath expression finds in each: numbers as numbers, times
// as times, everything else as text. Items without it come first. That no item has it, and
// none can, is an error, which calls the items by their kind: the expression is misspelt.
func Sort[T any](kind string, items []T, by *Path) error {
	type keyed struct {
		item T
		key  any
	}
	list, found := make([]keyed, len(items)), false
	for i, item := range items {
		key, err := by.first(item)
		if err != nil {
			return err
		}
		list[i], found = keyed{item, key}, found || key != nil
	}
	if !found && len(items) > 0 && !isMember[T](by) {
		if part := lastPart(items, by); part != "" {
			return fmt.Errorf("--sort-by: no %s has %s; did you mean `--sort-by %s`?", kind, by.text, part)
		}
		return fmt.Errorf("--sort-by: no %s has %s; `hitchctl get %[1]ss -o json` shows what they have, such as --sort-by id", kind, by.text)
	}
	slices.SortStableFunc(list, func(a, b keyed) int { return compare(a.key, b.key) })
	for i, k := range list {
		items[i] = k.item
	}
	return nil
}

// isMember reports whether the expression is the name of a member that a T can have. A node,
// say, has no lastSeenAt before it has called.
func isMember[T any](by *Path) bool {
	of, name := reflect.TypeFor[T](), strings.Trim(by.text, "{.}")
	return of.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(of), func(f reflect.StructField) bool {
		member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return member == name
	})
}

// lastPart is that of an expression that finds nothing, as name in .metadata.name, if an item
// has it; else "".
func lastPart[T any](items []T, by *Path) string {
	part := strings.Trim(by.text[strings.LastIndex(by.text, ".")+1:], "{}")
	last, err := ParsePath(part)
	if part == "" || err != nil {
		return ""
	}
	for _, item := range items {
		if key, err := last.first(item); err == nil && key != nil {
			return part
		}
	}
	return ""
}

func compare(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(rank(a), rank(b))
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return cmp.Compare(x, y)
		}
	}
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	if s, err := time.Parse(time.RFC3339, x); err == nil {
		if t, err := time.Parse(time.RFC3339, y); err == nil {
			return s.Compare(t)
		}
	}
	return strings.Compare(x, y)
}

func rank(v any) int {
	if v == nil {
		return 0
	}
	return 1
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
