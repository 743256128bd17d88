package lcm_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// No parameters may lead the nodes of an instance to another controller, whichever of its
// names they use.
func TestNoHostsLineNamesTheController(t *testing.T) {
	w := lcmtest.New(t)
	w.Config.Names = []string{"hitch.example.com"}
	w.Config.AdvertiseURLs = []string{"https://advertised.example.com:8443"}
	w.Config.ControllerURLs = []string{"https://moved.example.com:8443"}
	w.Restart()
	const line = `"192.168.0.20 registry.example.com`
	given := w.Verbatim("registry-connections.json")
	for _, c := range []struct{ name, fault string }{
		{"Hitch.example.com", "is a name of the controller"},
		{"advertised.example.com", "is a name of the controller"},
		{"moved.example.com", "is a name of the controller"},
	} {
		spec := given
		spec.AdditionalParams = json.RawMessage(strings.Replace(string(given.AdditionalParams), line, line+" "+c.name, 1))
		if bytes.Equal(spec.AdditionalParams, given.AdditionalParams) {
			t.Fatal("the sample has no such hosts line")
		}
		_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, spec)
		w.WantRefused(err, api.ProblemInvalid, "/private_registry_connection_info/1/hosts_string", c.name, c.fault)
	}
	spec := given
	spec.AdditionalParams = json.RawMessage(strings.Replace(string(given.AdditionalParams), line, line+" mirror.example.com", 1))
	if i := w.Put(spec); len(i.Warnings) != 1 || !strings.Contains(i.Warnings[0].Message, `names "mirror.example.com" too`) {
		t.Errorf("warnings %v, want one of the name that is not the registry's", i.Warnings)
	}
}

// imageFor is an image of the registry for an architecture.
func imageFor(w *lcmtest.World, architecture string) string {
	w.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, f := range [][2]string{{"c.json", `{"architecture":"` + architecture + `"}`}, {"manifest.json", `[{"Config":"c.json","RepoTags":["registry:latest"]}]`}} {
		w.Must(archive.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(f[1]))}))
		_, err := archive.Write([]byte(f[1]))
		w.Must(err)
	}
	w.Must(archive.Close())
	return out.String()
}

func TestAnImageForAnotherMachineIsNamed(t *testing.T) {
	w := lcmtest.Registry(t)
	agent := api.ThisAgent("v1")
	agent.Architecture = "arm64"
	w.Poll(lcmtest.RegistryServer, agent)
	s := w.Status(lcmtest.RegistryServer)
	s.Facts.AgentVersion, s.Facts.KernelVersion = "v1", "6.1"
	w.Report(lcmtest.RegistryServer, s) // with which the architecture is on record
	w.Upload(lcmtest.ImageFile, imageFor(w, "amd64"))
	if f := w.Instance().Files[0]; len(f.Faults) != 1 || !strings.Contains(f.Faults[0].Message, "holds an image for amd64; expected one for the node's architecture, arm64") {
		t.Errorf("the faults of an amd64 image are %v", f.Faults)
	}
	w.Upload(lcmtest.ImageFile, imageFor(w, "arm64"))
	if f := w.Instance().Files[0]; len(f.Faults) != 0 {
		t.Errorf("the faults of an arm64 image are %v", f.Faults)
	}
}
