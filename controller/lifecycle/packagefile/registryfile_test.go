package packagefile_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// imageFor is an image of the registry for an architecture.
func imageFor(w *lifecycletest.World, architecture string) string {
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
	w := lifecycletest.Registry(t)
	agent := api.ThisAgent("v1")
	agent.Architecture = "arm64"
	w.Poll(lifecycletest.RegistryServer, agent)
	s := w.Status(lifecycletest.RegistryServer)
	s.Facts.AgentVersion, s.Facts.KernelVersion = "v1", "6.1"
	w.Report(lifecycletest.RegistryServer, s) // with which the architecture is on record
	w.Upload(lifecycletest.ImageFile, imageFor(w, "amd64"))
	if f := w.Instance().Files[0]; len(f.Faults) != 1 || !strings.Contains(f.Faults[0].Message, "holds an image for amd64; expected one for the node's architecture, arm64") {
		t.Errorf("the faults of an amd64 image are %v", f.Faults)
	}
	w.Upload(lifecycletest.ImageFile, imageFor(w, "arm64"))
	if f := w.Instance().Files[0]; len(f.Faults) != 0 {
		t.Errorf("the faults of an arm64 image are %v", f.Faults)
	}
}

// Another image under the same path is another document, at once, and the blob that
// nothing names any more goes.
func TestAnotherImageReachesTheRegistry(t *testing.T) {
	w := lifecycletest.Registry(t)
	changed, stop := w.Hub.Watch(lifecycletest.RegistryServer)
	defer stop()
	before := w.Document(lifecycletest.RegistryServer)
	w.Upload(lifecycletest.ImageFile, w.SavedImage("second"))
	after := w.Document(lifecycletest.RegistryServer)
	if after.Generation != before.Generation+1 || after.Registry.Image.File.Sha256 == before.Registry.Image.File.Sha256 || !lifecycletest.Woken(changed) {
		t.Errorf("document %+v, poll woken %v; want the new image and the node woken", after, lifecycletest.Woken(changed))
	}
	w.Must(w.Files.Collect(w.Ctx))
	if got, want := w.BlobNames(), []string{after.Registry.Image.File.Sha256}; !slices.Equal(got, want) {
		t.Errorf("blobs %v, want %v", got, want)
	}
}

// Between the arrival of a file and its check, which takes long for an image, the
// node keeps what it has: also when everything is planned again, files are collected,
// or the controller is killed.
func TestAFileThatIsNotCheckedYetChangesNoDocument(t *testing.T) {
	w := lifecycletest.Registry(t)
	before := w.Document(lifecycletest.RegistryServer)
	for _, note := range []string{"second", "third"} {
		w.Arrive(lifecycletest.ImageFile, w.SavedImage(note))
	}
	w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, lifecycletest.InstanceID))
	w.Must(w.Files.Collect(w.Ctx))
	if diff := cmp.Diff(before, w.Document(lifecycletest.RegistryServer)); diff != "" {
		t.Errorf("the document changed (-before +after):\n%s", diff)
	}
	if _, err := w.Blobs.Size(before.Registry.Image.File.Sha256); err != nil {
		t.Errorf("the file that the document names: %v", err)
	}
	w.Restart()
	after := w.Document(lifecycletest.RegistryServer)
	if after.Generation != before.Generation+1 || after.Registry.Image.File.Sha256 != w.Instance().Files[0].Sha256 {
		t.Errorf("document %+v after a restart, want the new image in one step", after)
	}
}

// An instance that this version does not plan any more keeps its documents, and what
// they name has to be there.
func TestTheFilesOfADocumentThatStaysAreKept(t *testing.T) {
	w := lifecycletest.Registry(t)
	before := w.Document(lifecycletest.RegistryServer)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		i, _, err := tx.Instances().Get(lifecycletest.InstanceID)
		w.Must(err)
		key := store.DesiredKey(lifecycletest.InstanceID, i.DesiredVersion)
		d, _, err := tx.Desired().Get(key)
		w.Must(err)
		d.Topology.Servers = append(d.Topology.Servers, lifecycletest.RegistryTopology(lifecycletest.RegistryHealed).Servers...)
		return tx.Desired().Put(key, d)
	}))
	w.Upload(lifecycletest.ImageFile, w.SavedImage("second"))
	w.Must(w.Files.Collect(w.Ctx))
	if diff := cmp.Diff(before, w.Document(lifecycletest.RegistryServer)); diff != "" {
		t.Errorf("the document changed (-before +after):\n%s", diff)
	}
	if _, err := w.Blobs.Size(before.Registry.Image.File.Sha256); err != nil {
		t.Errorf("the file that the document names: %v", err)
	}
}

func TestAFaultyImageTakesTheSectionBackAndNothingFromTheNode(t *testing.T) {
	w := lifecycletest.Registry(t)
	w.Upload(lifecycletest.ImageFile, "not a tar")
	n := w.Node(lifecycletest.RegistryServer)
	if c := w.Document(lifecycletest.RegistryServer); c.Registry != nil {
		t.Errorf("document %+v, want no registry section: hands off", c)
	}
	if len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing || !strings.Contains(n.Withheld[0].Message, lifecycletest.ImageFile) || n.Ready {
		t.Errorf("node %+v, want the section withheld for %s", n, lifecycletest.ImageFile)
	}
	w.Upload(lifecycletest.ImageFile, w.SavedImage("first"))
	if n := w.Node(lifecycletest.RegistryServer); len(n.Withheld) > 0 || n.Generation != 3 {
		t.Errorf("node %+v, want nothing withheld in generation 3", n)
	}
}

// A state from before files were named: its documents lack what this version puts
// there, and the nodes may read it from the start.
func TestAnOlderControllersStateIsTakenUp(t *testing.T) {
	w := lifecycletest.Registry(t)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		n, _, err := tx.Nodes().Get(lifecycletest.RegistryServer)
		w.Must(err)
		var config api.NodeConfig
		text, err := w.Store.Unseal(n.Config)
		w.Must(err)
		w.Must(json.Unmarshal(text, &config))
		config.Registry = nil
		n.Files, n.Digest = nil, config.Digest()
		text, err = json.Marshal(config)
		w.Must(err)
		n.Config, err = w.Store.Seal(text)
		w.Must(err)
		return tx.Nodes().Put(n.ID, n)
	}))
	w.Restart()
	c := w.Document(lifecycletest.RegistryServer)
	if c.Registry == nil || !w.Lifecycle.Nodes.NodeReads(w.Ctx, lifecycletest.RegistryServer, c.Registry.Image.File.Sha256) {
		t.Errorf("document %+v, whose file the node may not read", c)
	}
}
