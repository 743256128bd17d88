package tacker

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestTheUserDataClass runs the classes as Tacker does, with the package's base HOT.
func TestTheUserDataClass(t *testing.T) {
	results.Begin(t, suite, "user-data", "the UserData class gives each server image, flavour and network, and the other parameters; a connection point that the request lacks is named")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.instantiateStart()
	links := v.body["extVirtualLinks"].([]any)
	if problem := v.toHeat("instantiate", nil); problem != "" {
		t.Fatal(problem)
	}
	vdu := object{"flavor": "m1.small", "image": "debian"}
	point := object{"network": links[0].(object)["resourceId"]}
	want := object{
		"VDU": object{"masterNode": vdu, "workerNode": vdu, "storage_server": vdu},
		"CP":  object{"masterNode_CP1": point, "workerNode_CP2": point, "storage_server_CP": point}}
	if got := v.kept.heat.Parameters; !bytes.Equal(asJSON(t, got["nfv"]), asJSON(t, want)) || got["nodehitch_join_token"] == nil ||
		got["worker_user_data"] != v.wanted()["worker_user_data"] {
		t.Errorf("the parameters of the stack are %s, want also %s", asJSON(t, got), asJSON(t, want))
	}

	for missing, given := range map[string]any{"masterNode_CP1": links[1:], "masterNode_CP1, storage_server_CP, workerNode_CP2": nil} {
		problem := v.toHeat("instantiate", object{"ext_virtual_links": given})
		said := "extVirtualLinks of the request: no extCps entry has the cpdId " + missing + ";"
		if !strings.Contains(problem, said) {
			t.Errorf("without %s Tacker shows %q, want %q", missing, problem, said)
		}
	}

	image := "Files/images/debian.qcow2"
	if err := errors.Join(os.Mkdir(filepath.Join(v.files, "Files/images"), 0o700), os.WriteFile(filepath.Join(v.files, image), []byte("QFI"), 0o600)); err != nil {
		t.Fatal(err)
	}
	v.onboard("v1", "simple-storage", "--image", image)
	if problem := v.toHeat("instantiate", nil); problem != "" {
		t.Errorf("with an image file for three VDUs Heat says %q", problem)
	}
	v.keep(v.kept.after)
	v.begin("HEAL", nil)
	if problem := v.toHeat("heal", object{"vdus": []string{"workerNode"}, "groups": object{}}); problem != "" {
		t.Errorf("with an image file for three VDUs, at a heal, Heat says %q", problem)
	}

	script := v.asV2()
	script.succeeds("instantiate_start", v.body, nil)
	for missing, given := range map[string]any{"masterNode_CP1": links[1:], "masterNode_CP1, storage_server_CP, workerNode_CP2": []any{}} {
		request := maps.Clone(v.body)
		request["extVirtualLinks"] = given
		problem := script.toHeat("INSTANTIATE", request)
		said := "extVirtualLinks of the request: no extCps entry has the cpdId " + missing + ";"
		if !strings.Contains(problem, said) {
			t.Errorf("without %s Tacker's v2 API shows %q, want %q", missing, problem, said)
		}
	}
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
