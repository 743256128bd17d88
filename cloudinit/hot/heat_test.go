package hot

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// Heat's own engine, without a cloud behind it. What needs a cloud (make a stack, see
// what the servers get) is in e2e/stacks.
func TestHeatsEngineAcceptsThem(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import heat.engine").CombinedOutput(); err != nil {
		refuse := t.Skipf
		if os.Getenv("NODEHITCH_LAB") == "required" {
			refuse = t.Fatalf
		}
		refuse("needs Heat's engine: `make deps` installs python3-heat: %v: %s", err, out)
	}
	additional, err := AdditionalParams(params(t))
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for _, flavour := range Flavours {
		top, nested := BaseHOT(flavour, V1)
		for text, files := range map[string]map[string]string{Files()[flavour+".yaml"]: Files(), top: nested} {
			for _, wait := range []bool{false, true} {
				parameters := taken(t, text, additional)
				parameters["nodehitch_wait_for_nodes"] = wait
				all = append(all, map[string]any{"template": text, "files": files, "parameters": parameters})
			}
		}
	}
	given, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/validate.py")
	cmd.Stdin = bytes.NewReader(given)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if lines := bytes.Count(out, []byte("\n")); err != nil || lines != len(all) {
		t.Errorf("%v after %d of %d: %s", err, lines, len(all), failure.String())
	}
}

// nfv is what Tacker's UserData fills in for a template.
func nfv(h *hotTemplate) map[string]any {
	vdus, cps := tackerFinds(h)
	vdu, cp := map[string]any{}, map[string]any{}
	for _, name := range vdus {
		vdu[name] = map[string]any{"flavor": "m1.small", "image": "debian-12"}
	}
	for _, name := range cps {
		cp[name] = map[string]any{"network": "net0"}
	}
	return map[string]any{"VDU": vdu, "CP": cp}
}
