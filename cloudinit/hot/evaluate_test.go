package hot

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// evaluator evaluates a template like Heat, as far as the user_data needs it. e2e/stacks
// tests that a real Heat gives the same.
type evaluator struct {
	*hotTemplate
	t          *testing.T
	parameters map[string]any
}

func evaluate(t *testing.T, text string, parameters map[string]any) *evaluator {
	t.Helper()
	e := &evaluator{hotTemplate: parse(t, text), t: t, parameters: maps.Clone(parameters)}
	for name, p := range e.Parameters {
		if _, given := parameters[name]; !given {
			e.parameters[name] = p["default"]
		}
	}
	return e
}

// userData is the agent template's output for these parameters, and the boundary between
// its parts.
func userData(t *testing.T, parameters map[string]any) (header, text string) {
	t.Helper()
	e := evaluate(t, Files()[Agent], parameters)
	header, text, _ = strings.Cut(e.multipart(e.Resources["user_data"]), "\n\n")
	return header + "\n\n", text
}

// multipart is the text of an OS::Heat::MultipartMime.
func (e *evaluator) multipart(r *resource) string {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("===============1=="); err != nil {
		e.t.Fatal(err)
	}
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n\n", w.Boundary())
	parts, _ := e.value(r.Properties["parts"]).([]any)
	for _, p := range parts {
		part := p.(map[string]any)
		kind := "plain"
		if subtype, ok := part["subtype"].(string); ok {
			kind = subtype
		}
		encoding, content := encode(part["config"].(string))
		piece, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {"text/" + kind + "; charset=utf-8"},
			"MIME-Version": {"1.0"}, "Content-Transfer-Encoding": {encoding}})
		if err != nil {
			e.t.Fatal(err)
		}
		fmt.Fprint(piece, content)
	}
	if err := w.Close(); err != nil {
		e.t.Fatal(err)
	}
	return b.String()
}

// encode is a part as Heat sends it: what is not ASCII as base64.
func encode(text string) (encoding, content string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r >= 0x80 }) {
		return "base64", base64.StdEncoding.EncodeToString([]byte(text))
	}
	return "7bit", text
}

// ours is the part that makes a server a node.
func ours(t *testing.T, parameters map[string]any) string {
	t.Helper()
	text, _ := evaluate(t, Files()[Agent], parameters).function("get_resource", "cloud_config")
	return text.(string)
}

// value is a value without functions.
func (e *evaluator) value(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, each := range v {
			list[i] = e.value(each)
		}
		return list
	case map[string]any:
		if len(v) == 1 {
			for name, argument := range v {
				if result, is := e.function(name, argument); is {
					return result
				}
			}
		}
		m := map[string]any{}
		for key, each := range v {
			m[key] = e.value(each)
		}
		return m
	}
	return v
}

func (e *evaluator) function(name string, argument any) (result any, is bool) {
	switch name {
	case "get_param":
		return e.parameters[argument.(string)], true
	case "get_attr":
		return e.attribute(argument.([]any)), true
	case "get_resource": // of a software config: Heat puts its text where its id stands
		r := e.Resources[argument.(string)]
		if r.Type == "OS::Heat::MultipartMime" { // Nova gets it
			return "the id of " + e.multipart(r), true
		}
		if r.Type == "OS::Neutron::SecurityGroup" {
			return argument, true
		}
		config, err := yaml.Marshal(e.value(r.Properties["cloud_config"]))
		if err != nil {
			e.t.Fatal(err)
		}
		return "#cloud-config\n" + string(config), true
	case "if":
		branches := argument.([]any)
		if e.value(e.Conditions[branches[0].(string)]) == true {
			return e.value(branches[1]), true
		}
		return e.value(branches[2]), true
	case "not":
		return e.value(argument) != true, true
	case "equals":
		both := e.value(argument).([]any)
		return fmt.Sprint(both[0]) == fmt.Sprint(both[1]), true
	case "list_concat":
		var all []any
		for _, each := range e.value(argument).([]any) {
			all = append(all, each.([]any)...)
		}
		return all, true
	case "list_join":
		var all []string
		for _, list := range e.value(argument).([]any)[1:] {
			for _, each := range list.([]any) {
				all = append(all, each.(string))
			}
		}
		return strings.Join(all, argument.([]any)[0].(string)), true
	case "map_merge":
		merged := map[string]any{}
		for _, each := range e.value(argument).([]any) {
			for key, value := range each.(map[string]any) {
				merged[key] = value
			}
		}
		return merged, true
	case "str_replace":
		return e.replace(e.value(argument).(map[string]any)), true
	}
	return nil, false
}

// attribute is one of a nested template, the text of a software config, or its own name.
func (e *evaluator) attribute(path []any) any {
	r := e.Resources[path[0].(string)]
	if nested, there := Files()[r.Type]; there {
		given := e.value(r.Properties).(map[string]any)
		inner := evaluate(e.t, nested, given)
		return inner.value(inner.Outputs[path[1].(string)]["value"])
	}
	if r.Type == "OS::Heat::MultipartMime" {
		return e.multipart(r)
	}
	return fmt.Sprint(path...)
}

// replace puts a string as it is and all else as JSON.
func (e *evaluator) replace(argument map[string]any) string {
	text := argument["template"].(string)
	for key, value := range argument["params"].(map[string]any) {
		if s, ok := value.(string); ok {
			text = strings.ReplaceAll(text, key, s)
			continue
		}
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			e.t.Fatal(err)
		}
		text = strings.ReplaceAll(text, key, strings.TrimSuffix(b.String(), "\n"))
	}
	return text
}
