package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
)

func TestEveryCommandHelps(t *testing.T) {
	a := &app{out: screen.Plain(&bytes.Buffer{}, 0), err: screen.Plain(&bytes.Buffer{}, 0)}
	n := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if n++; c.HasParent() && (c.Short == "" || c.Example == "" || !strings.Contains(c.Example, c.CommandPath())) {
			t.Errorf("%s: wants a short description and an example that shows it", c.CommandPath())
		}
		for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
			if len([]rune(line)) > 110 {
				t.Errorf("%s: a line of %d characters: %s", c.CommandPath(), len(line), line)
			}
		}
	}
	walk(a.root())
	if n < 30 {
		t.Errorf("only %d commands", n)
	}
}

func TestChoose(t *testing.T) {
	all := []named{
		{"4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", "storage_server"},
		{"4a0dffff-7d1e-4c8c-9a06-13cbb0a3a4f1", "worker"},
		{"5b0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", "worker"},
	}
	tests := map[string]struct{ want, failure string }{
		"storage_server":                       {all[0].id, ""},
		"4A0DBB52-7D1E-4C8C-9A06-13CBB0A3A4F1": {all[0].id, ""},
		"4a0db":                                {all[0].id, ""},
		"5b":                                   {all[2].id, ""},
		"4a0d":                                 {"", `"4a0d" could be 2 nodes`},
		"worker":                               {"", `could be 2 nodes; say which`},
		"4":                                    {"", `no node has the name "4"`},
		"":                                     {"", `no node has the name ""`},
		"master":                               {"", "`hitchctl get nodes` lists them"},
	}
	for text, test := range tests {
		got, err := choose("node", text, all)
		if got != test.want || (err == nil) != (test.failure == "") || (err != nil && !strings.Contains(err.Error(), test.failure)) {
			t.Errorf("%q: got %q, %v; want %q, %q", text, got, err, test.want, test.failure)
		}
	}
}

// The number of an operation is only unique within its instance.
func TestChooseOperation(t *testing.T) {
	all := []named{{"0b1a5c2e-7c53/1", "1"}, {"0b1a5c2e-7c53/10", "10"}, {"77aa5c2e-7c53/1", "1"}}
	for text, want := range map[string]string{
		"0b1a5c2e-7c53/1": all[0].id, "0b1a/1": all[0].id, "77/1": all[2].id, "10": all[1].id, "1": "", "77/10": "", "0b": "",
	} {
		if got, err := choose("operation", text, all); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}
