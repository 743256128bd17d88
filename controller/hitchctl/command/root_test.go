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
		{id: "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "storage_server"},
		{id: "4a0dffff-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "worker", about: "instance 0b1a5c2e, Enrolled"},
		{id: "5b0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "worker", about: "instance 77aa5c2e, Lost"},
		{id: "6c0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "worker", over: true},
		{id: "6d0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "master", over: true},
		{id: "6e0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "master"},
		{id: "6f0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", name: "old", over: true},
	}
	tests := map[string]struct{ want, failure string }{
		"storage_server":                       {all[0].id, ""},
		"4A0DBB52-7D1E-4C8C-9A06-13CBB0A3A4F1": {all[0].id, ""},
		"4a0db":                                {all[0].id, ""},
		"5b":                                   {all[2].id, ""},
		"4a0d":                                 {"", `"4a0d" could be 2 nodes`},
		"node/4a0db":                           {all[0].id, ""},
		"worker":                               {"", "could be 2 nodes; give the id of one, or its beginning:\n  " + all[1].id + "  worker, instance 0b1a5c2e, Enrolled\n  " + all[2].id + "  worker, instance 77aa5c2e, Lost"},
		"master":                               {all[5].id, ""},
		"old":                                  {all[6].id, ""},
		"storage-servr":                        {"", "did you mean storage_server?"},
		"4":                                    {"", `no node has the name "4"`},
		"":                                     {"", `no node has the name ""`},
		"registry":                             {"", "`hitchctl get nodes` lists them"},
	}
	for text, test := range tests {
		got, err := choose(nodeKind.kindName, text, all)
		if got != test.want || (err == nil) != (test.failure == "") || (err != nil && !strings.Contains(err.Error(), test.failure)) {
			t.Errorf("%q: got %q, %v; want %q, %q", text, got, err, test.want, test.failure)
		}
	}
}

// The number of an operation is only unique within its instance.
func TestChooseOperation(t *testing.T) {
	all := []named{{id: "0b1a5c2e-7c53/1", name: "1"}, {id: "0b1a5c2e-7c53/10", name: "10"}, {id: "77aa5c2e-7c53/1", name: "1"}}
	for text, want := range map[string]string{
		"0b1a5c2e-7c53/1": all[0].id, "0b1a/1": all[0].id, "77/1": all[2].id, "10": all[1].id, "1": "", "77/10": "", "0b": "",
	} {
		if got, err := choose(operationKind.kindName, text, all); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}
