package csar_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
)

const python = "/usr/bin/python3"

// needs skips a test on a machine without a module of Python.
func needs(t *testing.T, module, debian string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), python, "-c", "import "+module).CombinedOutput()
	if err == nil {
		return
	}
	refuse := t.Skipf
	if os.Getenv("NODEHITCH_LAB") == "required" {
		refuse = t.Fatalf
	}
	refuse("needs %s: `make deps` installs %s: %v: %s", module, debian, err, out)
}

// runs is the output of a program of Python, a line for each of what it was given.
func runs(t *testing.T, stdin []byte, lines int, args ...string) [][]byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	got := bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n"))
	if err != nil || len(got) != lines {
		t.Fatalf("%v after %d of %d: %s", err, len(got), lines, failure.String())
	}
	return got
}

// parsed is what parse.py says of a package.
type parsed struct {
	VNF      map[string]any `json:"vnf"`
	Flavours map[string]struct {
		Nodes     map[string][]string       `json:"nodes"`
		VDUs      map[string][2]string      `json:"vdus"`
		Policies  map[string][]parsedPolicy `json:"policies"`
		Hooks     []string                  `json:"hooks"`
		Artifacts []string                  `json:"artifacts"`
	} `json:"flavours"`
}

type parsedPolicy struct {
	Properties struct {
		Aspects map[string]struct {
			Max   int      `json:"max_scale_level"`
			Steps []string `json:"step_deltas"`
		} `json:"aspects"`
		Levels map[string]struct {
			ScaleInfo map[string]any `json:"scale_info"`
		} `json:"levels"`
		Default string `json:"default_level"`
	} `json:"properties"`
	Targets []string `json:"targets"`
}

// Tacker reads packages with the same parser.
func TestTackersParserTakesThem(t *testing.T) {
	needs(t, "toscaparser", "python3-tosca-parser")
	archives := map[string][]byte{}
	for _, template := range hot.Flavours {
		for _, api := range []hot.API{hot.V1, hot.V2} {
			o := options(t, template, api)
			o.Images[""] = "Files/images/debian.qcow2"
			archives[template+" "+string(api)] = written(t, o, "")
		}
	}
	paths := saved(t, archives)
	for i, line := range runs(t, nil, len(paths), append([]string{"testdata/parse.py"}, paths...)...) {
		var p parsed
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(paths[i], ".csar"), "001/")
		t.Run(name, func(t *testing.T) { p.check(t, name) })
	}
}

func (p *parsed) check(t *testing.T, name string) {
	template, api, _ := strings.Cut(name, " ")
	f, there := p.Flavours["simple"]
	if !there || len(p.Flavours) != 1 || p.VNF["provider"] != "nodehitch" {
		t.Fatalf("got %+v", p)
	}
	vdus, cps, volumes := []string{"masterNode", "workerNode"}, []string{"masterNode_CP1", "workerNode_CP2"}, []string(nil)
	aspects := map[string]int{"worker_instance": 2}
	if strings.HasPrefix(template, "complex") {
		aspects["master_instance"] = 2
	}
	if strings.HasSuffix(template, "-storage") {
		vdus, cps = []string{"masterNode", "storage_server", "workerNode"}, []string{"masterNode_CP1", "storage_server_CP", "workerNode_CP2"}
		volumes = []string{"storage_server_volume"}
	}
	if template == "registry" {
		vdus, cps, aspects = []string{"PrivateRegistryVDU"}, []string{"CP1"}, map[string]int{}
	}
	for kind, want := range map[string][]string{"Vdu.Compute": vdus, "VduCp": cps, "Vdu.VirtualBlockStorage": volumes} {
		if diff := cmp.Diff(want, f.Nodes["tosca.nodes.nfv."+kind]); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
	for vdu, got := range f.VDUs {
		if got != [2]string{"debian-" + vdu, "m1.medium"} {
			t.Errorf("%s has %v", vdu, got)
		}
	}
	found := map[string]int{}
	for _, policy := range f.Policies["tosca.policies.nfv.ScalingAspects"] {
		for aspect, a := range policy.Properties.Aspects {
			found[aspect] = a.Max
		}
	}
	if diff := cmp.Diff(aspects, found); diff != "" {
		t.Error(diff)
	}
	hooks, driver := 12, "Scripts/nodehitch_mgmt.py"
	if api == "v2" {
		hooks, driver = 17, "nodehitch_script.py"
	}
	if len(f.Hooks) != hooks || !slices.Equal(f.Artifacts, []string{driver}) {
		t.Errorf("hooks %v, artifacts %v", f.Hooks, f.Artifacts)
	}
	p.checkLevels(t, f.Policies, vdus, len(aspects))
}

// checkLevels: Tacker refuses a level that is not among those of the flavour, and needs
// number_of_instances of every VDU.
func (p *parsed) checkLevels(t *testing.T, policies map[string][]parsedPolicy, vdus []string, aspects int) {
	levels := policies["tosca.policies.nfv.InstantiationLevels"]
	if len(levels) != 1 || len(levels[0].Properties.Levels) != 2 || levels[0].Properties.Default != "instantiation_level_1" {
		t.Fatalf("levels: %+v", levels)
	}
	for name, level := range levels[0].Properties.Levels {
		if level.ScaleInfo == nil || len(level.ScaleInfo) != aspects {
			t.Errorf("%s: scale_info is %v", name, level.ScaleInfo)
		}
	}
	for kind, want := range map[string]int{"VduInstantiationLevels": len(vdus), "VduInitialDelta": len(vdus), "VduScalingAspectDeltas": aspects} {
		targets := map[string]bool{}
		for _, policy := range policies["tosca.policies.nfv."+kind] {
			for name := range policy.Properties.Levels {
				if _, known := levels[0].Properties.Levels[name]; !known {
					t.Errorf("%s: %s is no level", kind, name)
				}
			}
			for _, target := range policy.Targets {
				targets[target] = true
			}
		}
		if len(targets) != want {
			t.Errorf("%s is of %v, want %d VDUs", kind, targets, want)
		}
	}
}

// Heat's own engine takes the base HOT with what Tacker fills in, and without the parameters
// that have the controller's defaults.
func TestHeatTakesTheBaseHOT(t *testing.T) {
	needs(t, "heat.engine", "python3-heat")
	var all []map[string]any
	each(t, func(t *testing.T, template string, api hot.API) {
		for _, with := range []bool{false, true} {
			o := options(t, template, api)
			controller := controllerOf(t)
			parameters := map[string]any{"nfv": nfv(template, api), "nodehitch_join_token": controller.JoinToken}
			if with {
				o.Controller = controller
			} else {
				parameters["nodehitch_controller_urls"] = controller.ControllerURLs
				parameters["nodehitch_root_certificate"] = string(controller.RootPEM)
				if api == hot.V1 {
					delete(parameters, "nodehitch_root_certificate")
					parameters["nodehitch_root_certificate_lines"] = strings.Split(strings.TrimSpace(string(controller.RootPEM)), "\n")
				}
				parameters["nodehitch_pin"] = controller.Pin
			}
			files := unpacked(t, written(t, o, ""))
			nested := map[string]string{}
			for name, text := range files {
				if bare, ok := strings.CutPrefix(name, "BaseHOT/simple/nested/"); ok {
					nested[bare] = text
				}
			}
			all = append(all, map[string]any{"template": files["BaseHOT/simple/simple.yaml"], "files": nested, "parameters": parameters})
		}
	})
	given, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	runs(t, given, len(all), "../../../cloudinit/hot/testdata/validate.py")
}

// nfv is what Tacker fills in, by the names of each version of its API.
func nfv(template string, api hot.API) map[string]any {
	vdus, cps := map[string]any{}, map[string]any{}
	for _, name := range []string{"masterNode", "workerNode", "storage_server", "PrivateRegistryVDU"} {
		vdus[name] = map[string]any{"flavor": "m1.medium", "image": "ubuntu"}
		if api == hot.V2 {
			vdus[name] = map[string]any{"computeFlavourId": "m1.medium", "vcImageId": "ubuntu", "desired_capacity": 3}
		}
	}
	for _, name := range []string{"masterNode_CP1", "workerNode_CP2", "storage_server_CP", "CP1"} {
		cps[name] = map[string]any{"network": fmt.Sprintf("net of %s", template)}
	}
	return map[string]any{"VDU": vdus, "CP": cps}
}
