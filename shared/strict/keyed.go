package strict

import (
	"fmt"

	yamlv2 "go.yaml.in/yaml/v2"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// keyed is a YAML document whose mappings, at every depth, are lists of pairs.
type keyed struct{ value any }

// UnmarshalYAML decodes a mapping as pairs, a list as keyed elements, and
// anything else as it is.
func (k *keyed) UnmarshalYAML(unmarshal func(any) error) error {
	var pairs yamlv2.MapSlice
	if unmarshal(&pairs) == nil {
		k.value = pairs
		return nil
	}
	var list []keyed
	if unmarshal(&list) == nil {
		k.value = list
		return nil
	}
	return unmarshal(&k.value)
}

// walk calls report for every key that a mapping at or below v gives twice.
func (k *keyed) walk(v any, at fault.At, report func(fault.At)) {
	switch v := v.(type) {
	case yamlv2.MapSlice:
		seen := make(map[string]int, len(v))
		for _, item := range v {
			name := fmt.Sprint(item.Key)
			if seen[name]++; seen[name] == 2 {
				report(at.Key(name))
			}
			k.walk(item.Value, at.Key(name), report)
		}
	case []any:
		for i, item := range v {
			k.walk(item, at.Index(i), report)
		}
	case []keyed:
		for i, item := range v {
			k.walk(item.value, at.Index(i), report)
		}
	}
}
