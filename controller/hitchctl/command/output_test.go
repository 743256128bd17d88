package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// One text that does something does not keep the others from being printed.
func TestWhatDoesSomethingIsEscaped(t *testing.T) {
	items := map[string]string{"harmful": "a\x1b[2J\x7f\u009b31m\u202e\u2028\ufffeb", "other": "is read",
		"a key of YAML": "\u202e x", "no key": "\u200b", "beyond 16 bits": "\U000e0041"}
	for _, o := range []output{asJSON, asYAML, asJSONPath + "{.items[*].harmful}{.items[*].other}"} {
		var out bytes.Buffer
		a := &app{out: screen.Plain(&out, 0)}
		if err := a.encode(o, one(0, []map[string]string{items})); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
		if text := out.String(); plain.Text(text) != text || !strings.Contains(text, "is read") {
			t.Errorf("%s: %q", o, text)
		}
		var list struct{ Items []map[string]string }
		switch o {
		case asJSON: // has the text as it is
			if err := json.Unmarshal(out.Bytes(), &list); err != nil || list.Items[0]["harmful"] != items["harmful"] {
				t.Errorf("%v: %q", err, out.String())
			}
		case asYAML:
			if err := yaml.Unmarshal(out.Bytes(), &list); err != nil || list.Items[0]["other"] != items["other"] {
				t.Errorf("%v: %q", err, out.String())
			}
		}
	}
}
