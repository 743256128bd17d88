package lcm_test

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

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
