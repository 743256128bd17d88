package strict

import (
	"fmt"

	yamlv2 "go.yaml.in/yaml/v2"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// keyed is a YAML document whose mappings, at every depth, are lists of pairs.
type keyed struct{ value any }

// UnmarshalYAML decodes a list as keyed elements, a mapping as pairs, and anything else
// as it is. The list comes first: the decoder takes one of objects for pairs.
func (k *keyed) UnmarshalYAML(unmarshal func(any) error) error {
	var list []keyed
	if unmarshal(&list) == nil {
		k.value = list
		return nil
	}
	var pairs yamlv2.MapSlice
	if unmarshal(&pairs) == nil {
		k.value = pairs
		return nil
	}
	return unmarshal(&k.value)
}

// place is where a value is: below another one, by its key or its index. It is written out
// only for a fault.
type place struct {
	above *place
	key   string
	index int // if key is not set
	keyed bool
}

func (p *place) at() fault.At {
	switch {
	case p == nil:
		return fault.Root
	case p.keyed:
		return p.above.at().Key(p.key)
	}
	return p.above.at().Index(p.index)
}

// walk calls report for every key that a mapping at or below v gives twice.
func (k *keyed) walk(v any, at *place, report func(*place)) {
	switch v := v.(type) {
	case yamlv2.MapSlice:
		seen := make(map[string]int, len(v))
		for _, item := range v {
			below := &place{above: at, key: fmt.Sprint(item.Key), keyed: true}
			if seen[below.key]++; seen[below.key] == 2 {
				report(below)
			}
			k.walk(item.Value, below, report)
		}
	case []any:
		for i, item := range v {
			k.walk(item, &place{above: at, index: i}, report)
		}
	case []keyed:
		for i, item := range v {
			k.walk(item.value, &place{above: at, index: i}, report)
		}
	}
}
