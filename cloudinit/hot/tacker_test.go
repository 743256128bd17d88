package hot

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tackerFinds are the VDUs and CPs for which Tacker's sample UserData fills in nfv. It
// searches for a get_param of four elements directly in a property of a server, a port or a
// volume, or of what a group consists of, and nowhere deeper.
func tackerFinds(h *hotTemplate) (vdus, cps []string) {
	found := map[string]map[string]bool{"VDU": {}, "CP": {}}
	scan := func(properties map[string]any) {
		for _, p := range properties {
			function, _ := p.(map[string]any)
			param, _ := function["get_param"].([]any)
			if len(param) == 4 && param[0] == "nfv" {
				found[fmt.Sprint(param[1])][fmt.Sprint(param[2])] = true
			}
		}
	}
	for _, r := range h.Resources {
		switch r.Type {
		case "OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume":
			scan(r.Properties)
		case "OS::Heat::AutoScalingGroup":
			member, _ := r.Properties["resource"].(map[string]any)
			properties, _ := member["properties"].(map[string]any)
			scan(properties)
		}
	}
	return keys(found["VDU"]), keys(found["CP"])
}

// For each of these Tacker needs a VDU in the VNFD and a CP in extVirtualLinks, so a
// flavour names what it has and nothing else.
func TestTackerFillsInNFV(t *testing.T) {
	cluster, network := []string{"masterNode", "workerNode"}, []string{"masterNode_CP1", "workerNode_CP2"}
	storage := append(slices.Clone(cluster[:1]), "storage_server", "workerNode")
	storageNetwork := append(slices.Clone(network[:1]), "storage_server_CP", "workerNode_CP2")
	for flavour, want := range map[string][2][]string{
		"simple": {cluster, network}, "simple-storage": {storage, storageNetwork},
		"complex": {cluster, network}, "complex-storage": {storage, storageNetwork},
		"registry": {{"PrivateRegistryVDU"}, {"CP1"}},
	} {
		top, _ := BaseHOT(flavour, V1)
		for kind, text := range map[string]string{"plain": Files()[flavour+".yaml"], "v1": top} {
			vdus, cps := tackerFinds(parse(t, text))
			if diff := cmp.Diff(want, [2][]string{vdus, cps}); diff != "" {
				t.Errorf("%s, %s: %s", flavour, kind, diff)
			}
		}
	}
}

// Tacker reads the one template in BaseHOT/<flavour>, the last that it finds, and gives
// Heat all templates in nested by their bare names.
func TestTackersLayout(t *testing.T) {
	files := TackerFiles()
	for _, flavour := range Flavours {
		var top []string
		nested := map[string]bool{}
		for name := range files {
			switch path.Dir(name) {
			case "BaseHOT/" + flavour:
				top = append(top, name)
			case "BaseHOT/" + flavour + "/nested":
				nested[path.Base(name)] = true
			}
		}
		if len(top) != 1 {
			t.Fatalf("%s has %v", flavour, top)
		}
		for name := range nested {
			for _, r := range parse(t, files["BaseHOT/"+flavour+"/nested/"+name]).Resources {
				if strings.HasSuffix(r.Type, ".yaml") {
					t.Errorf("%s nests %s, which nests another: TackerFiles does not read that", flavour, name)
				}
			}
		}
		wants := map[string]bool{}
		for _, r := range parse(t, files[top[0]]).Resources {
			kind := r.Type
			if member, ok := r.Properties["resource"].(map[string]any); ok {
				kind = fmt.Sprint(member["type"])
			}
			if strings.HasSuffix(kind, ".yaml") {
				wants[kind] = true
			}
		}
		if diff := cmp.Diff(wants, nested); diff != "" {
			t.Errorf("%s: %s", flavour, diff)
		}
	}
}

// Before SCALE_IN Tacker's v1 API compares min_size with the size that the group will have, which
// fails for a function. Without a parameter of this name, no request seems to change it.
func TestBaseHOTOfTheFirstAPI(t *testing.T) {
	for _, flavour := range Flavours {
		top, _ := BaseHOT(flavour, V1)
		base, plain := parse(t, top), parse(t, Files()[flavour+".yaml"])
		for name, r := range base.Resources {
			if r.Type != "OS::Heat::AutoScalingGroup" {
				continue
			}
			want := plain.Resources[name].Properties["min_size"]
			if function, ok := want.(map[string]any); ok {
				want = plain.Parameters[fmt.Sprint(function["get_param"])]["default"]
			}
			if diff := cmp.Diff(want, r.Properties["min_size"]); diff != "" {
				t.Errorf("%s: the least size of %s: %s", flavour, name, diff)
			}
		}
		for name := range base.Parameters {
			if strings.HasSuffix(name, "_min") {
				t.Errorf("%s has the parameter %s", flavour, name)
			}
		}
	}
}

// Tacker's v2 API has other names in nfv, and has the size of each group that is scaled there.
func TestBaseHOTOfTheSecondAPI(t *testing.T) {
	for _, flavour := range Flavours {
		first, nested := BaseHOT(flavour, V1)
		second, same := BaseHOT(flavour, V2)
		nested[Agent] = Files()[Agent] // of a v1 base HOT the agent's resources are a part
		if diff := cmp.Diff(nested, same); diff != "" {
			t.Errorf("%s: other templates are nested: %s", flavour, diff)
		}
		members := func(text string) map[string]int {
			found := map[string]int{}
			for _, r := range parse(t, text).Resources {
				walk(r.Properties, nil, func(function string, argument any, _ []string) {
					if path, _ := argument.([]any); function == "get_param" && len(path) == 4 {
						found[fmt.Sprint(path[3])]++
					}
				})
			}
			return found
		}
		want, groups := map[string]int{}, 0
		for name, n := range members(first) {
			want[map[string]string{"flavor": "computeFlavourId", "image": "vcImageId", "network": "network"}[name]] = n
		}
		for name, r := range parse(t, first).Resources {
			if r.Type == "OS::Heat::AutoScalingGroup" && parse(t, first).Resources[name+"_scale_out"] != nil {
				groups++
			}
		}
		if groups > 0 {
			want["desired_capacity"] = groups
		}
		if diff := cmp.Diff(want, members(second)); diff != "" {
			t.Errorf("%s: %s", flavour, diff)
		}
		for name := range parse(t, second).Parameters {
			if strings.HasSuffix(name, "_desired") {
				t.Errorf("%s: the size of a group is in nfv and in %s", flavour, name)
			}
		}
	}
}

func TestWithController(t *testing.T) {
	p := params(t)
	for api, root := range map[API][2]string{
		V1: {"nodehitch_root_certificate_lines", strings.ReplaceAll(strings.TrimSuffix(rootPEM(t), "\n"), "\n", ",")},
		V2: {"nodehitch_root_certificate", rootPEM(t)},
	} {
		top, _ := BaseHOT("simple", api)
		with, err := WithController(top, p)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		for name, declared := range parse(t, with).Parameters {
			if strings.HasPrefix(name, "nodehitch_") {
				got[name] = declared["default"]
			}
		}
		want := map[string]any{
			"nodehitch_controller_urls": strings.Join(urls, ","), root[0]: root[1], "nodehitch_pin": p.Pin, "nodehitch_join_token": nil,
			"nodehitch_cluster_script": "", "nodehitch_wait_for_nodes": false, "nodehitch_wait_timeout": 1800.0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", api, diff)
		}
	}
	top, _ := BaseHOT("simple", V1)
	p.Pin, p.ControllerURLs = "", nil
	if _, err := WithController(top, p); err == nil || !strings.Contains(err.Error(), "pin: ") || !strings.Contains(err.Error(), "controller URLs: ") {
		t.Errorf("got %v", err)
	}
}
