package naming_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/naming"
)

func TestNamesAndLabels(t *testing.T) {
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("l", i)] = ""
	}
	for _, given := range []struct {
		name   string
		labels map[string]string
		want   string // at which place, and why; "" for no fault
	}{
		{name: ""},
		{name: strings.Repeat("東", 255)},
		{name: "web (東京) \"1\""},
		{name: strings.Repeat("東", 256), want: "/name: has 256 characters"},
		{name: "web\n", want: "/name: found \"web\\n\", whose byte 3"},
		{name: "a\x1b[31m", want: "whose byte 1"},
		{name: " web", want: "no space at its beginning"},
		{labels: map[string]string{"env": "prod", "example.com/tier": "a.b-c_1", "empty": ""}},
		{labels: map[string]string{"a b": "c"}, want: "/labels/a b: is no label of Kubernetes"},
		{labels: map[string]string{"env": "a/b"}, want: "/labels/env: is no label of Kubernetes"},
		{labels: many, want: "/labels: has 65 labels, expected at most 64"},
	} {
		faults := naming.Check(&given.name, given.labels)
		switch {
		case given.want == "" && len(faults) > 0, given.want != "" && len(faults) != 1:
			t.Errorf("%q with %v: %v", given.name, given.labels, faults)
		case given.want != "" && !strings.Contains(faults[0].String(), given.want):
			t.Errorf("%q with %v: %v, want %q", given.name, given.labels, faults[0], given.want)
		}
	}
}
