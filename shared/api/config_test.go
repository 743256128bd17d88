package api_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The conditions of each section. Whoever adds a section says here what proves it.
var proofs = map[string][]string{
	"Proxy":   nil, // its use shows in what is downloaded
	"Storage": {api.ConditionVolumesMounted, api.ConditionExportsServed},
}

// A section that calls for no condition would be done by an agent that ignores it.
func TestEverySectionCallsForItsConditions(t *testing.T) {
	none := api.NodeConfig{}
	if types := none.ConditionTypes(); len(types) > 0 {
		t.Errorf("a document without sections calls for %v", types)
	}
	for field := range reflect.TypeFor[api.NodeConfig]().Fields() {
		if field.Type.Kind() != reflect.Pointer {
			continue
		}
		want, known := proofs[field.Name]
		if !known {
			t.Errorf("section %s: say in ConditionTypes, and here, which conditions prove it", field.Name)
			continue
		}
		var doc api.NodeConfig
		reflect.ValueOf(&doc).Elem().FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		if diff := cmp.Diff(want, doc.ConditionTypes()); diff != "" {
			t.Errorf("section %s, which is empty (-want +got):\n%s", field.Name, diff)
		}
	}
}
