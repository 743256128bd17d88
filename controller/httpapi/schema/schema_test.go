package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/httpapi/schema"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// pet has each keyword that is enforced.
const pet = `{"type": "object", "additionalProperties": false, "required": ["name", "kind"], "properties": {
	"name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
	"kind": {"allOf": [{"type": "string", "enum": ["cat", "dog"]}], "description": "which"},
	"id": {"type": "string", "format": "uuid"},
	"born": {"type": "string", "format": "date-time"},
	"legs": {"type": "integer", "minimum": 0, "maximum": 4},
	"weight": {"type": "number", "minimum": 0.5},
	"tame": {"type": "boolean"},
	"toys": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "minLength": 1}},
	"owner": {"type": "object", "additionalProperties": true},
	"tags": {"type": "object", "additionalProperties": {"type": "string"}}
}}`

func compile(t *testing.T, text string) (*schema.Schema, error) {
	t.Helper()
	var s openapi3.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return schema.Compile(openapi3.NewSchemaRef("", &s))
}

func mustCompile(t *testing.T, text string) *schema.Schema {
	t.Helper()
	s, err := compile(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func faults(t *testing.T, s *schema.Schema, document string) []string {
	t.Helper()
	tree, wrong := jsontree.Parse([]byte(document))
	if wrong != nil {
		t.Fatal(wrong)
	}
	lines := []string{}
	for _, f := range s.Check(tree) {
		lines = append(lines, f.String())
	}
	return lines
}

func TestEveryFaultIsReportedAtItsPlace(t *testing.T) {
	s := mustCompile(t, pet)
	for name, test := range map[string]struct {
		document string
		want     []string
	}{
		"nothing wrong": {
			`{"name": "tom", "kind": "cat", "id": "6F9619FF-8b86-4d01-b42d-00cf4fc964ff", "born": "2030-01-31T12:00:00.5Z", "legs": 4,
			  "weight": 5e-1, "tame": true, "toys": ["ball"], "owner": {"any": [1, null]}, "tags": {"a": "b"}}`, []string{}},
		"all wrong": {
			`{"Kind": "cat", "name": 7, "id": "tom", "born": "yesterday", "legs": 5, "weight": 0.1, "tame": "no", "toys": [1, ""], "owner": null, "tags": {"a": "b", "c": 1}, "tail": 1, "a/b": 2}`,
			[]string{
				"/kind: is missing",
				"/Kind: is not known here; did you mean kind? Names are case sensitive",
				"/name: found a number, expected a string",
				"/id: is not a UUID such as 6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
				"/born: is not a time such as 2030-01-31T12:00:00Z (RFC 3339)",
				"/legs: is 5, expected at most 4",
				"/weight: is 0.1, expected at least 0.5",
				"/tame: found a string, expected a boolean",
				"/toys/0: found a number, expected a string",
				"/toys/1: is empty",
				"/owner: found null, expected an object",
				"/tags/c: found a number, expected a string",
				"/tail: is not known here; known names are born, id, kind, legs, name, owner, tags, tame, toys, weight",
				"/a~1b: is not known here; known names are born, id, kind, legs, name, owner, tags, tame, toys, weight",
			}},
		"texts": {
			`{"name": "a", "kind": "cow"}`,
			[]string{"/name: has 1 characters, expected at least 2", `/kind: found another value, expected one of "cat", "dog"`}},
		"more texts":  {`{"name": "abcdefg", "kind": 1}`, []string{"/name: has 7 characters, expected at most 5", `/kind: found a number, expected one of "cat", "dog"`}},
		"pattern":     {`{"name": "Tom", "kind": "cat"}`, []string{"/name: does not match the pattern ^[a-z]+$"}},
		"empty list":  {`{"name": "tom", "kind": "cat", "toys": []}`, []string{"/toys: has 0 elements, expected at least 1"}},
		"long list":   {`{"name": "tom", "kind": "cat", "toys": [1, 2, 3, 4]}`, []string{"/toys: has 4 elements, expected at most 3"}},
		"given twice": {`{"name": "tom", "kind": "cat", "kind": "dog"}`, []string{"/kind: is given more than once"}},
		"a fraction":  {`{"name": "tom", "kind": "cat", "legs": 4.0}`, []string{"/legs: found the number 4.0, expected an integer of 64 bits without fraction and exponent"}},
		"a huge one":  {`{"name": "tom", "kind": "cat", "legs": 99999999999999999999}`, []string{"/legs: found the number 99999999999999999999, expected an integer"}},
		"not bounded": {`{"name": "tom", "kind": "cat", "weight": 1e999}`, []string{"/weight: is a number that is too large"}},
		"a list":      {`[]`, []string{"found a list, expected an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := faults(t, s, test.document)
			for i := range min(len(got), len(test.want)) {
				if strings.HasPrefix(got[i], test.want[i]) {
					got[i] = test.want[i] // the rest of a long message is not this test's
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoMessageRepeatsAText(t *testing.T) {
	s := mustCompile(t, pet)
	for _, line := range faults(t, s, `{"name": "hunter2", "kind": "hunter2", "id": "hunter2", "born": "hunter2", "legs": "hunter2", "owner": "hunter2"}`) {
		if strings.Contains(line, "hunter2") {
			t.Error(line)
		}
	}
}

func TestADocumentThatIsWrongEverywhereGetsABoundedAnswer(t *testing.T) {
	s := mustCompile(t, `{"type": "array", "items": {"type": "string"}}`)
	if got := faults(t, s, "["+strings.Repeat("1,", 5000)+"1]"); len(got) != schema.MaxFaults {
		t.Errorf("%d faults", len(got))
	}
}

func TestASchemaMayContainItself(t *testing.T) {
	node := openapi3.NewSchema()
	node.Type = &openapi3.Types{"object"}
	node.Properties = openapi3.Schemas{"next": openapi3.NewSchemaRef("#/components/schemas/Node", node)}
	s, err := schema.Compile(openapi3.NewSchemaRef("", node))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/next/next: found a number, expected an object"}, faults(t, s, `{"next": {"next": 1}}`)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotEnforcedDoesNotCompile(t *testing.T) {
	for _, text := range []string{
		`{"oneOf": [{"type": "string"}]}`, `{"type": "string", "format": "email"}`, `{"type": ["string", "null"]}`,
		`{"type": "array", "uniqueItems": true}`, `{"type": "object", "additionalProperties": {"not": {"type": "string"}}}`,
		`{"type": "object", "properties": {"a": {"type": "array", "items": {"multipleOf": 2, "type": "integer"}}}}`,
		`{"type": "integer", "enum": [1]}`, `{"type": "string", "pattern": "("}`, `{"allOf": [{"not": {"type": "string"}}]}`,
	} {
		if _, err := compile(t, text); err == nil {
			t.Errorf("%s compiled", text)
		}
	}
}

// Property: documents that kin-openapi's own validator accepts are those that
// Check accepts, but for what it does on purpose: 4.0 is no integer.
func TestItAgreesWithTheLibrary(t *testing.T) {
	s := mustCompile(t, pet)
	var reference openapi3.Schema
	if err := json.Unmarshal([]byte(pet), &reference); err != nil {
		t.Fatal(err)
	}
	values := rapid.SampledFrom([]string{`"tom"`, `"t"`, `"cat"`, `"toolong"`, `""`, "3", "-1", "7", "0.25", "true", "null", "{}", `["a"]`, "[]", `[""]`, `["a","b","c","d"]`})
	names := rapid.SampledFrom([]string{"name", "kind", "legs", "weight", "tame", "toys", "owner", "tail"})
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.MapOfN(names, values, 0, 6).Draw(t, "members")
		parts := make([]string, 0, len(members))
		for name, value := range members {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
		document := "{" + strings.Join(parts, ",") + "}"
		var decoded any
		if err := json.Unmarshal([]byte(document), &decoded); err != nil {
			t.Fatal(err)
		}
		tree, wrong := jsontree.Parse([]byte(document))
		if wrong != nil {
			t.Fatal(wrong)
		}
		ours, theirs := s.Check(tree).Err(), reference.VisitJSON(decoded, openapi3.MultiErrors())
		if (ours == nil) != (theirs == nil) {
			t.Errorf("%s: ours %v, the library's %v", document, ours, theirs)
		}
	})
}
