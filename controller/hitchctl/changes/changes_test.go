package changes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/hitchctl/changes"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestBetween(t *testing.T) {
	before := &api.Instance{
		ID: "a", DesiredVersion: 1,
		AdditionalParams: json.RawMessage(`{"a/b": {"x": 1, "y": 10000000000000000001}, "list": [1, 2, 3], "gone": "` + strings.Repeat("x", 200) + `", "kind": {}}`),
	}
	after := &api.Instance{
		ID: "a", DesiredVersion: 2, StackID: "s",
		AdditionalParams: json.RawMessage(`{"a/b": {"x": 2, "y": 10000000000000000002}, "list": [1, 3], "kind": [], "new": null}`),
		Topology:         &api.Topology{Servers: []api.Server{}},
	}
	want := []string{
		`~ /additionalParams/a~1b/x: 1 -> 2`,
		`~ /additionalParams/a~1b/y: 10000000000000000001 -> 10000000000000000002`,
		`- /additionalParams/gone: "` + strings.Repeat("x", 119) + `…`,
		`~ /additionalParams/kind: {} -> []`,
		`~ /additionalParams/list/1: 2 -> 3`,
		`- /additionalParams/list/2: 3`,
		`+ /stackId: "s"`,
		`+ /topology: {"servers":[]}`,
	}
	var got []string
	for _, c := range changes.Between(before, after) {
		got = append(got, c.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if same := changes.Between(before, before); len(same) > 0 {
		t.Errorf("the same differs: %v", same)
	}
}
