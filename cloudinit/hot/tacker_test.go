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
		vdus, cps := tackerFinds(parse(t, Files()[flavour+".yaml"]))
		if diff := cmp.Diff(want, [2][]string{vdus, cps}); diff != "" {
			t.Errorf("%s: %s", flavour, diff)
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
