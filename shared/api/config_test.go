package api_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The conditions of each section. A new section adds its conditions here.
var proofs = map[string][]string{
	"Proxy":             nil, // its use shows in what is downloaded
	"Storage":           {api.ConditionVolumesMounted, api.ConditionExportsServed},
	"NFSClient":         {api.ConditionNFSClientInstalled},
	"Registry":          {api.ConditionRegistryRunning},
	"Registries":        {api.ConditionRegistriesConnected},
	"PersistentVolumes": {api.ConditionPersistentVolumesRegistered},
	"Kubernetes":        {api.ConditionEngineReady, api.ConditionKubernetesInstalled},
	"Cluster":           {api.ConditionClusterMember},
	"ControlPlane":      {api.ConditionControlPlaneHealthy},
	"PodNetwork":        {api.ConditionPodNetworkReady},
	"ClusterMembers":    {api.ConditionClusterMembersCurrent},
	"ClusterDepartures": {api.ConditionClusterMembersLeft},
	"ClusterDrains":     {api.ConditionClusterMembersDrained},
	"ClusterAccess":     {api.ConditionClusterAccessReady},
}

// A section that calls for no condition would be done by an agent that ignores it, and one
// that is not declared would be given to an agent that does not understand it.
func TestEverySectionIsDeclaredAndCallsForItsConditions(t *testing.T) {
	none := api.NodeConfig{}
	var members []string
	if types := none.ConditionTypes(); len(types) > 0 {
		t.Errorf("a document without sections calls for %v", types)
	}
	for field := range reflect.TypeFor[api.NodeConfig]().Fields() {
		var empty reflect.Value
		switch field.Type.Kind() {
		case reflect.Pointer:
			empty = reflect.New(field.Type.Elem())
		case reflect.Slice:
			empty = reflect.MakeSlice(field.Type, 0, 0)
		default:
			continue
		}
		want, known := proofs[field.Name]
		if !known {
			t.Errorf("section %s: say in section.go, and here, which conditions prove it", field.Name)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		members = append(members, name)
		var doc api.NodeConfig
		reflect.ValueOf(&doc).Elem().FieldByIndex(field.Index).Set(empty)
		if diff := cmp.Diff(want, doc.ConditionTypes()); diff != "" {
			t.Errorf("section %s, which is empty (-want +got):\n%s", field.Name, diff)
		}
		if diff := cmp.Diff([]string{name}, doc.Sections()); diff != "" {
			t.Errorf("a document with %s alone has the sections (-want +got):\n%s", field.Name, diff)
		}
	}
	declared := api.Sections()
	slices.Sort(members)
	slices.Sort(declared)
	if diff := cmp.Diff(members, declared); diff != "" {
		t.Errorf("declared sections (-members of NodeConfig +declared):\n%s", diff)
	}
}

// Missing means hands off and empty means remove: the wire has to keep them apart.
func TestAnEmptyListIsNotAMissingOne(t *testing.T) {
	for name, doc := range map[string]api.NodeConfig{"missing": {}, "empty": {Registries: []api.RegistryConnection{}}} {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var back api.NodeConfig
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if (back.Registries == nil) != (name == "missing") {
			t.Errorf("%s: %s gives back %#v", name, text, back.Registries)
		}
	}
}

// A file that is not listed is neither sent to the node nor kept there.
func TestTheFilesOfADocument(t *testing.T) {
	file := func(name string) *api.FileReference { return &api.FileReference{Sha256: name} }
	doc := api.NodeConfig{
		Registry:   &api.RegistrySection{Image: api.RegistryImage{File: file("image")}},
		Registries: []api.RegistryConnection{{CACertificate: file("ca")}, {CACertificate: file("ca")}, {}},
		Kubernetes: &api.KubernetesSection{
			KubeadmConfig: file("kubeadm"), ProgramArchives: []api.FileReference{*file("programs"), *file("plugins")}, ImageArchives: []api.FileReference{*file("images")},
		},
		PodNetwork: &api.PodNetworkSection{Manifest: file("network")},
	}
	want := []api.FileReference{*file("image"), *file("ca"), *file("kubeadm"), *file("programs"), *file("plugins"), *file("images"), *file("network")}
	if diff := cmp.Diff(want, doc.Files()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if files := (&api.NodeConfig{Kubernetes: &api.KubernetesSection{}, PodNetwork: &api.PodNetworkSection{}}).Files(); files != nil {
		t.Errorf("none is named, and got %v", files)
	}
}
