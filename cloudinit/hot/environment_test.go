package hot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/shared/client"
)

func params(t *testing.T) cloudinit.Params {
	t.Helper()
	root, err := client.ParseRoot([]byte(rootPEM(t)), "")
	if err != nil {
		t.Fatal(err)
	}
	return cloudinit.Params{ControllerURLs: []string{"https://Controller.example:8443/", urls[1]}, RootPEM: []byte(rootPEM(t)), Pin: client.Pin(root), JoinToken: token}
}

func TestEnvironment(t *testing.T) {
	p := params(t)
	want := map[string]any{"nodehitch_controller_urls": []any{urls[0], urls[1]}, "nodehitch_root_certificate": rootPEM(t),
		"nodehitch_pin": p.Pin, "nodehitch_join_token": token}
	text, err := Environment(p)
	if err != nil {
		t.Fatal(err)
	}
	var environment struct{ Parameters map[string]any }
	if err := yaml.UnmarshalStrict(text, &environment); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, environment.Parameters); diff != "" {
		t.Error(diff)
	}
	if text, err = AdditionalParams(p); err != nil {
		t.Fatal(err)
	}
	var additional map[string]any
	if err := json.Unmarshal(text, &additional); err != nil {
		t.Fatal(err)
	}
	var lines []any
	for line := range strings.Lines(rootPEM(t)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	want["nodehitch_root_certificate_lines"] = lines // of a base HOT for Tacker's v1 API
	if diff := cmp.Diff(want, additional); diff != "" {
		t.Error(diff)
	}
}

// Heat refuses a parameter that a template does not have, and Tacker ignores it.
func TestEveryFlavourTakesTheEnvironment(t *testing.T) {
	text, _ := Environment(params(t))
	var environment struct{ Parameters map[string]any }
	if err := yaml.Unmarshal(text, &environment); err != nil {
		t.Fatal(err)
	}
	given := environment.Parameters
	given["nfv"] = true
	for _, flavour := range Flavours {
		template := parse(t, Files()[flavour+".yaml"])
		for name := range given {
			if template.Parameters[name] == nil {
				t.Errorf("%s has no parameter %s", flavour, name)
			}
		}
		for name, p := range template.Parameters {
			if _, optional := p["default"]; !optional && given[name] == nil {
				t.Errorf("%s needs %s, which has no value", flavour, name)
			}
		}
		if template.Parameters["nodehitch_join_token"]["hidden"] != true {
			t.Errorf("%s shows the join token", flavour)
		}
	}
}

func TestWrongParametersAndNoSecret(t *testing.T) {
	p := params(t)
	p.JoinToken, p.ControllerURLs = "hunter2", []string{"http://a"}
	for _, render := range []func(cloudinit.Params) ([]byte, error){Environment, AdditionalParams} {
		_, err := render(p)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "join token") || !strings.Contains(err.Error(), "http://a") {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheExampleFitsTheTemplates(t *testing.T) {
	var environment struct {
		Parameters struct {
			NFV struct{ VDU, CP map[string]any }
		}
	}
	if err := yaml.UnmarshalStrict([]byte(example), &environment); err != nil {
		t.Fatal(err)
	}
	vdus, cps := map[string]bool{}, map[string]bool{}
	for _, flavour := range Flavours {
		v, c := tackerFinds(parse(t, Files()[flavour+".yaml"]))
		for _, name := range v {
			vdus[name] = true
		}
		for _, name := range c {
			cps[name] = true
		}
	}
	if diff := cmp.Diff(keys(vdus), keys(environment.Parameters.NFV.VDU)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(keys(cps), keys(environment.Parameters.NFV.CP)); diff != "" {
		t.Error(diff)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 { // over what is there
		if err := Write(dir, TackerFiles()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "BaseHOT/simple/nested/nodehitch-worker.yaml"))
	if err != nil || string(text) != Files()["nodehitch-worker.yaml"] {
		t.Errorf("%v", err)
	}
}

// The example has each VDU and connection point that a template asks for, and its image is
// of the system that the tests run.
func TestTheExampleEnvironmentFitsTheTemplates(t *testing.T) {
	var example struct {
		Parameters struct {
			NFV struct {
				VDU map[string]struct{ Flavor, Image string } `json:"VDU"`
				CP  map[string]struct{ Network string }       `json:"CP"`
			} `json:"nfv"`
		} `json:"parameters"`
	}
	if err := yaml.UnmarshalStrict([]byte(Files()["example-environment.yaml"]), &example); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for name, h := range parsed(t) {
		vdus, cps := tackerFinds(h)
		for _, vdu := range vdus {
			asked++
			if v := example.Parameters.NFV.VDU[vdu]; v.Flavor == "" || v.Image != "debian-12" {
				t.Errorf("%s asks for the VDU %s: %+v", name, vdu, v)
			}
		}
		for _, cp := range cps {
			asked++
			if example.Parameters.NFV.CP[cp].Network == "" {
				t.Errorf("%s asks for the connection point %s", name, cp)
			}
		}
	}
	if asked == 0 {
		t.Error("no template asks for anything")
	}
}
