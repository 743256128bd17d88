package tacker

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestHooksOfRealTacker runs hooks with the classes and the database of a tree of Tacker. What
// only this test notices is a driver that saves the request with VnfLcmOpOcc.save(), which
// Tacker leaves out of what it saves. That is no mutation, because it needs such a tree.
func TestHooksOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker", "the driver has Tacker's own base class, objects and exceptions; a retry's request, in Tacker's database, has the join parameters")
	source := os.Getenv("TACKER_SOURCE")
	if source == "" {
		t.Skip("TACKER_SOURCE names no tree of Tacker; TACKER_PYTHON names a Python with what it imports")
	}
	w := newWorld(t)
	v := w.newVNF()
	body, err := json.Marshal(v.body)
	if err == nil {
		err = os.WriteFile(w.path("body.json"), body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.python("testdata/real.py", v.folder(), w.path("body.json"), v.id)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+w.path("installed")+":"+source)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	var got struct {
		Base, Shared         bool
		File, Raised         string
		Request, Kept, Other object
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	installed, err := os.ReadFile(got.File)
	if err != nil {
		t.Fatal(err)
	}
	if shim, err := os.ReadFile("../../packaging/tacker/shim/nodehitch_mgmt.py"); err != nil || !bytes.Equal(shim, installed) {
		t.Errorf("Tacker would hash %s, which is not the shim (%v)", filepath.Base(got.File), err)
	}
	if !got.Base || got.Shared {
		t.Errorf("the driver is of Tacker's class: %v; Tacker shares the request's parameters with the instance: %v", got.Base, got.Shared)
	}
	for _, name := range joinParameters {
		if got.Request[name] == nil || got.Kept[name] == nil || got.Other["additionalParams"] != nil {
			t.Errorf("%s: the request has %v, a retry %v, another occurrence %v", name, got.Request[name], got.Kept[name], got.Other)
		}
	}
	if !strings.HasPrefix(got.Raised, "An error occurred in MgmtDriver: ") || !strings.Contains(got.Raised, "INSTANTIATED") {
		t.Errorf("raised %q", got.Raised)
	}
	v.asRecorded(0, "INSTANTIATE START COMPLETED")
}
