package hot

import (
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// hotTemplate is a template as YAML reads it.
type hotTemplate struct {
	Version     string                    `json:"heat_template_version"`
	Description string                    `json:"description"`
	Parameters  map[string]map[string]any `json:"parameters"`
	Conditions  map[string]any            `json:"conditions"`
	Resources   map[string]*resource      `json:"resources"`
	Outputs     map[string]map[string]any `json:"outputs"`
}

type resource struct {
	Type           string         `json:"type"`
	Condition      string         `json:"condition"`
	DependsOn      string         `json:"depends_on"`
	DeletionPolicy any            `json:"deletion_policy"`
	Properties     map[string]any `json:"properties"`
}

func parse(t *testing.T, text string) *hotTemplate {
	t.Helper()
	var h hotTemplate
	if err := yaml.UnmarshalStrict([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	return &h
}

// walk visits a value and all in it, with the conditions that apply there.
func walk(value any, conditions []string, visit func(function string, argument any, conditions []string)) {
	switch v := value.(type) {
	case []any:
		for _, each := range v {
			walk(each, conditions, visit)
		}
	case map[string]any:
		for _, key := range keys(v) {
			if len(v) == 1 {
				visit(key, v[key], conditions)
			}
			branches, ok := v[key].([]any)
			if key != "if" || !ok || len(branches) != 3 {
				walk(v[key], conditions, visit)
				continue
			}
			condition, _ := branches[0].(string)
			walk(branches[1], append(conditions[:len(conditions):len(conditions)], condition), visit)
			walk(branches[2], append(conditions[:len(conditions):len(conditions)], "not "+condition), visit)
		}
	}
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
