package packagefile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A package may have archives for machines that the instance does not have: agents pass over
// them. One that is none withholds what names it.
func TestArchivesForOtherMachinesAreWarnedOf(t *testing.T) {
	topology := lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w := lifecycletest.Made(t, topology)
	const file = "Files/images.tar"
	spec := lifecycletest.WithKubernetes(topology)
	spec.AdditionalParams = json.RawMessage(strings.Replace(string(spec.AdditionalParams), `"kubernetes": {`, `"kubernetes": {"image_archive_paths": ["`+file+`"], `, 1))
	w.Put(spec)
	agent := api.ThisAgent("v1")
	agent.Architecture = "arm64"
	w.Poll(lifecycletest.WorkerServer, agent)
	s := w.Status(lifecycletest.WorkerServer)
	s.Facts.AgentVersion, s.Facts.KernelVersion = "v1", "6.1"
	w.Report(lifecycletest.WorkerServer, s) // with which the architecture is on record
	of := func() (found api.PackageFile) {
		for _, f := range w.Instance().Files {
			if f.Path == file {
				found = f
			}
		}
		return found
	}
	w.Upload(file, imageFor(w, "amd64"))
	const pointer, says = "/additionalParams/k8s_cluster_installation_param/kubernetes/image_archive_paths/0", file + " is for amd64, and the nodes are arm64"
	if i := w.Instance(); len(of().Faults) > 0 || !lifecycletest.HasFault(i.Warnings, pointer, says) {
		t.Errorf("an archive for amd64 has the faults %v, and the instance the warnings %v", of().Faults, i.Warnings)
	}
	if c := w.Document(lifecycletest.WorkerServer).Kubernetes; c == nil || len(c.ImageArchives) != 1 || c.ImageArchives[0].Sha256 != of().Sha256 {
		t.Errorf("the worker has %+v", c)
	}
	w.Upload(file, imageFor(w, "arm64"))
	if i := w.Instance(); len(of().Faults) > 0 || lifecycletest.HasFault(i.Warnings, pointer, "") {
		t.Errorf("an archive for arm64 has the faults %v, and the instance the warnings %v", of().Faults, i.Warnings)
	}
	w.Upload(file, "text")
	if f := of(); len(f.Faults) != 1 || !strings.Contains(f.Faults[0].Message, file+" is not a tar archive") {
		t.Errorf("a text has the faults %v", f.Faults)
	}
}
