// Package changes says what is different between two versions of an instance, by
// JSON pointer, as the controller shows them: secrets are not there to compare.
package changes

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Change is one place where two documents differ. An empty value is absent.
type Change struct {
	Pointer       string
	Before, After string
}

// String is the change on one line: + added, - removed, ~ changed.
func (c Change) String() string {
	switch {
	case c.Before == "":
		return "+ " + c.Pointer + ": " + c.After
	case c.After == "":
		return "- " + c.Pointer + ": " + c.Before
	}
	return "~ " + c.Pointer + ": " + c.Before + " -> " + c.After
}

// Between is every change of what a PUT can change and a GET shows, in order.
func Between(before, after *api.Instance) []Change {
	var c comparison
	c.value(fault.Root, visible(before), visible(after))
	return c.changes
}

// visible is the part of an instance that a PUT sets.
func visible(i *api.Instance) any {
	text, err := json.Marshal(map[string]any{
		"name": nullIfEmpty(i.Name), "labels": i.Labels, "stackId": nullIfEmpty(i.StackID), "topology": i.Topology, "additionalParams": i.AdditionalParams,
	})
	if err != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil
	}
	return v
}

func nullIfEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}

type comparison struct{ changes []Change }

func (c *comparison) value(at fault.At, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			c.object(at, b, a)
			return
		}
	case []any:
		if a, ok := after.([]any); ok {
			c.list(at, b, a)
			return
		}
	}
	c.changes = append(c.changes, Change{string(at), show(before), show(after)})
}

func (c *comparison) object(at fault.At, before, after map[string]any) {
	var keys []string
	for k := range before {
		keys = append(keys, k)
	}
	for k := range after {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		c.value(at.Key(k), before[k], after[k])
	}
}

func (c *comparison) list(at fault.At, before, after []any) {
	for i := range max(len(before), len(after)) {
		c.value(at.Index(i), element(before, i), element(after, i))
	}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// show is a value on one line, not too long; "" for an absent one.
func show(v any) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	const most = 120
	if runes := []rune(string(text)); len(runes) > most {
		return strings.TrimSpace(string(runes[:most])) + "…"
	}
	return string(text)
}
