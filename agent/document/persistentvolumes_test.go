package document_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/document"
)

const pvDocument = `{
  "apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "master",
  "persistentVolumes": {"state": "present", "servers": ["10.10.0.5"], "manifests": [
    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv1", "labels": {"a": "b"}},
     "spec": {"capacity": {"storage": "1Gi"}, "nfs": {"server": "10.10.0.5", "path": "/volume/nfs/pv1"}}},
    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv2"}, "spec": {"nfs": {"server": "10.10.0.5", "path": "/volume/nfs/pv2"}}}
  ]}
}`

func TestManifestsAreTakenAsTheyAre(t *testing.T) {
	doc, err := document.Decode([]byte(pvDocument))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(doc.PersistentVolumes.Manifests[0]); !strings.Contains(got, `"capacity"`) {
		t.Errorf("the manifest is %s", got)
	}
}

func TestFaultsOfPersistentVolumes(t *testing.T) {
	const at = "/persistentVolumes/"
	for name, c := range map[string]struct {
		old, new string
		pointers []string
	}{
		"no state":                     {`"state": "present", `, "", []string{at + "state"}},
		"another state":                {`"present"`, `"gone"`, []string{at + "state"}},
		"a host name for the server":   {`["10.10.0.5"]`, `["storage"]`, []string{at + "servers/0", at + "manifests/0/spec/nfs/server", at + "manifests/1/spec/nfs/server"}},
		"no server":                    {`["10.10.0.5"]`, `[]`, []string{at + "servers", at + "manifests/0/spec/nfs/server", at + "manifests/1/spec/nfs/server"}},
		"a manifest of another server": {`{"server": "10.10.0.5", "path": "/volume/nfs/pv2"}`, `{"server": "10.10.0.9", "path": "/volume/nfs/pv2"}`, []string{at + "manifests/1/spec/nfs/server"}},
		"a relative path":              {`"/volume/nfs/pv2"`, `"volume"`, []string{at + "manifests/1/spec/nfs/path"}},
		"another kind":                 {`"kind": "PersistentVolume", "metadata": {"name": "pv2"}`, `"kind": "Secret", "metadata": {"name": "pv2"}`, []string{at + "manifests/1/kind"}},
		"a kind in other letters":      {`"kind": "PersistentVolume", "metadata": {"name": "pv2"}`, `"Kind": "PersistentVolume", "metadata": {"name": "pv2"}`, []string{at + "manifests/1/kind"}},
		"a name that leads elsewhere":  {`"pv2"`, `"../nodes/a"`, []string{at + "manifests/1/metadata/name"}},
		"one name twice":               {`"pv2"`, `"pv1"`, []string{at + "manifests/1/metadata/name"}},
		"no object":                    {`{"name": "pv2"}`, `7`, []string{at + "manifests/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			hasFaults(t, pvDocument, c.old, c.new, c.pointers)
		})
	}
}

// No manifest means that all registered volumes are deleted, so it must be explicit.
func TestAListOfManifestsIsNeverLeftOut(t *testing.T) {
	for manifests, good := range map[string]bool{`, "manifests": []`: true, `, "manifests": null`: false, ``: false} {
		_, err := document.Decode([]byte(`{"apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "master",
			"persistentVolumes": {"state": "present", "servers": ["10.10.0.5"]` + manifests + `}}`))
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "/persistentVolumes/manifests: expected a list") {
			t.Errorf("%q: %v", manifests, err)
		}
	}
}
