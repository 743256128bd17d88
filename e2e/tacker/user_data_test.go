package tacker

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestTheUserDataClass runs the class of the v1 API as Tacker does, with a base HOT of two
// servers.
func TestTheUserDataClass(t *testing.T) {
	results.Begin(t, suite, "user-data", "the UserData class gives each server image, flavour and network, and the other parameters; a connection point that the request lacks is named")
	w := newWorld(t)
	v := w.newVNF()
	shim, err := os.ReadFile("../../packaging/tacker/shim/k8s_cluster_user_data.py")
	if err == nil {
		path := filepath.Join(v.folder(), "UserData/k8s_cluster_user_data.py")
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, shim, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	parameters := v.body["additionalParams"].(object)
	parameters["nodehitch_join_token"] = "id.secret"
	links := v.body["extVirtualLinks"].([]any)

	got, problem := v.userData(links)
	if problem != "" {
		t.Fatal(problem)
	}
	vdu := object{"flavor": "m1.small", "image": "debian"}
	point := object{"network": links[0].(object)["resourceId"]}
	want := object{"nodehitch_join_token": "id.secret", "nfv": object{
		"VDU": object{"masterNode": vdu, "workerNode": vdu}, "CP": object{"masterNode_CP1": point, "workerNode_CP2": point}}}
	if !bytes.Equal(asJSON(t, got), asJSON(t, want)) {
		t.Errorf("the parameters of the stack are %s, want %s", asJSON(t, got), asJSON(t, want))
	}

	for missing, given := range map[string]any{"masterNode_CP1": links[1:], "masterNode_CP1, workerNode_CP2": nil} {
		_, problem := v.userData(given)
		said := "extVirtualLinks of the request: no extCps entry has the cpdId " + missing + ";"
		if !strings.Contains(problem, said) {
			t.Errorf("without %s Tacker shows %q, want %q", missing, problem, said)
		}
	}
}

// userData is the parameters of the stack, or the exception that Tacker shows.
func (v *vnf) userData(links any) (parameters object, problem string) {
	v.t.Helper()
	resources, nodes := object{}, object{}
	for server, point := range map[string]string{"masterNode": "masterNode_CP1", "workerNode": "workerNode_CP2"} {
		of := func(kind, name, what string) object { return object{"get_param": []string{"nfv", kind, name, what}} }
		resources[server] = object{"type": "OS::Nova::Server", "properties": object{"image": of("VDU", server, "image"), "flavor": of("VDU", server, "flavor")}}
		resources[point] = object{"type": "OS::Neutron::Port", "properties": object{"network": of("CP", point, "network")}}
		nodes[server] = object{"properties": object{"sw_image_data": object{"name": "debian"}}, "capabilities": object{"virtual_compute": object{"properties": object{
			"requested_additional_capabilities": object{"properties": object{"requested_additional_capability_name": "m1.small"}}}}}}
	}
	hot := object{"parameters": object{"nfv": object{"type": "json"}, "nodehitch_join_token": object{"type": "string"}}, "resources": resources}
	cmd := v.python("testdata/user_data.py", v.folder())
	cmd.Stdin = bytes.NewReader(asJSON(v.t, object{"hot": hot, "nested": object{}, "vnfd": object{"topology_template": object{"node_templates": nodes}},
		"additional_params": v.body["additionalParams"], "ext_virtual_links": links}))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, lines[len(lines)-1]
	}
	if err := json.Unmarshal(out, &parameters); err != nil {
		v.t.Fatal(err)
	}
	return parameters, ""
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
