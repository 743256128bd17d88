package lcm_test

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Another image under the same path is another document, at once, and the blob that
// nothing names any more goes.
func TestAnotherImageReachesTheRegistry(t *testing.T) {
	w := registry(t)
	changed, stop := w.Hub.Watch(registryServer)
	defer stop()
	before := w.document(registryServer)
	w.upload(image, w.savedImage("second"))
	after := w.document(registryServer)
	if after.Generation != before.Generation+1 || after.Registry.Image.File.Sha256 == before.Registry.Image.File.Sha256 || !woken(changed) {
		t.Errorf("document %+v, poll woken %v; want the new image and the node woken", after, woken(changed))
	}
	w.must(w.Files.Collect(w.ctx))
	if got, want := w.blobNames(), []string{after.Registry.Image.File.Sha256}; !slices.Equal(got, want) {
		t.Errorf("blobs %v, want %v", got, want)
	}
}

func (w *world) blobNames() (names []string) {
	w.Helper()
	w.must(filepath.WalkDir(filepath.Join(w.Config.DataDirectory, "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	}))
	return names
}

// Between the arrival of a file and its check, which takes long for an image, the
// node keeps what it has: also when everything is planned again, files are collected,
// or the controller is killed.
func TestAFileThatIsNotCheckedYetChangesNoDocument(t *testing.T) {
	w := registry(t)
	before := w.document(registryServer)
	for _, note := range []string{"second", "third"} {
		w.arrive(image, w.savedImage(note))
	}
	w.must(w.LCM.Reconciler.Reconcile(w.ctx, instanceID))
	w.must(w.Files.Collect(w.ctx))
	if diff := cmp.Diff(before, w.document(registryServer)); diff != "" {
		t.Errorf("the document changed (-before +after):\n%s", diff)
	}
	if _, err := w.Blobs.Size(before.Registry.Image.File.Sha256); err != nil {
		t.Errorf("the file that the document names: %v", err)
	}
	w.restart()
	after := w.document(registryServer)
	if after.Generation != before.Generation+1 || after.Registry.Image.File.Sha256 != w.instance().Files[0].Sha256 {
		t.Errorf("document %+v after a restart, want the new image in one step", after)
	}
}

// An instance that this version does not plan any more keeps its documents, and what
// they name has to be there.
func TestTheFilesOfADocumentThatStaysAreKept(t *testing.T) {
	w := registry(t)
	before := w.document(registryServer)
	w.must(w.Store.Update(func(tx *store.Tx) error {
		i, _, err := tx.Instances().Get(instanceID)
		w.must(err)
		key := store.DesiredKey(instanceID, i.DesiredVersion)
		d, _, err := tx.Desired().Get(key)
		w.must(err)
		d.Topology.Servers = append(d.Topology.Servers, registryStack(registryHealed).Servers...)
		return tx.Desired().Put(key, d)
	}))
	w.upload(image, w.savedImage("second"))
	w.must(w.Files.Collect(w.ctx))
	if diff := cmp.Diff(before, w.document(registryServer)); diff != "" {
		t.Errorf("the document changed (-before +after):\n%s", diff)
	}
	if _, err := w.Blobs.Size(before.Registry.Image.File.Sha256); err != nil {
		t.Errorf("the file that the document names: %v", err)
	}
}

func TestAFaultyImageTakesTheSectionBackAndNothingFromTheNode(t *testing.T) {
	w := registry(t)
	w.upload(image, "not a tar")
	n := w.node(registryServer)
	if c := w.document(registryServer); c.Registry != nil {
		t.Errorf("document %+v, want no registry section: hands off", c)
	}
	if len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing || !strings.Contains(n.Withheld[0].Message, image) || n.Ready {
		t.Errorf("node %+v, want the section withheld for %s", n, image)
	}
	w.upload(image, w.savedImage("first"))
	if n := w.node(registryServer); len(n.Withheld) > 0 || n.Generation != 3 {
		t.Errorf("node %+v, want nothing withheld in generation 3", n)
	}
}

// A state from before files were named: its documents lack what this version puts
// there, and the nodes may read it from the start.
func TestAnOlderControllersStateIsTakenUp(t *testing.T) {
	w := registry(t)
	w.must(w.Store.Update(func(tx *store.Tx) error {
		n, _, err := tx.Nodes().Get(registryServer)
		w.must(err)
		var config api.NodeConfig
		text, err := w.Store.Unseal(n.Config)
		w.must(err)
		w.must(json.Unmarshal(text, &config))
		config.Registry = nil
		n.Files, n.Digest = nil, config.Digest()
		text, err = json.Marshal(config)
		w.must(err)
		n.Config, err = w.Store.Seal(text)
		w.must(err)
		return tx.Nodes().Put(n.ID, n)
	}))
	w.restart()
	c := w.document(registryServer)
	if c.Registry == nil || !w.LCM.Nodes.NodeReads(w.ctx, registryServer, c.Registry.Image.File.Sha256) {
		t.Errorf("document %+v, whose file the node may not read", c)
	}
}
