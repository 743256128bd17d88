package lifecycletest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// ImageFile is the package file that the specification's registry names.
const ImageFile = "Files/images/private_registry.tar"

// The registry's server, and the one that takes its place.
var (
	RegistryServer = UUID(4, 1)
	RegistryHealed = UUID(4, 2)
)

// Verbatim is the instantiate body of a specification, as a PUT of this API.
func (w *World) Verbatim(file string) api.InstanceSpec {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(sourcetree.Path("shared/params/testdata"), file))
	w.Must(err)
	var body struct {
		AdditionalParams  json.RawMessage `json:"additionalParams"`
		VIMConnectionInfo json.RawMessage `json:"vimConnectionInfo"`
	}
	w.Must(json.Unmarshal(text, &body))
	return api.InstanceSpec{AdditionalParams: body.AdditionalParams, VimConnectionInfo: body.VIMConnectionInfo}
}

// SavedImage is what `docker save` writes, without layers. note makes one unlike another.
func (w *World) SavedImage(note string) string {
	w.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for name, content := range map[string]string{"manifest.json": `[{"RepoTags":["registry:latest"]}]`, "note": note} {
		w.Must(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
		_, err := archive.Write([]byte(content))
		w.Must(err)
	}
	w.Must(archive.Close())
	return out.String()
}

// RegistryTopology has one registry server, with these volumes.
func RegistryTopology(id string, volumes ...string) *api.Topology {
	t := &api.Topology{StackID: StackOne, StackStatus: "CREATE_COMPLETE", Servers: []api.Server{{
		ID: id, Name: "registry", VnfcInstanceID: "vnfc-" + id, VolumeIds: volumes,
		ConnectionPoints: []api.ConnectionPoint{{Name: "CP1", Addresses: []string{"192.168.0.10"}}},
	}}}
	for _, v := range volumes {
		t.Volumes = append(t.Volumes, api.TopologyVolume{ResourceID: "registry_volume", ID: v, SizeBytes: 1 << 30})
	}
	return t
}

// Registry is a world with the specification's registry, instantiated.
func Registry(t T) *World {
	t.Helper()
	w := New(t)
	w.Put(w.Verbatim("private-registry.json"))
	w.Upload(ImageFile, w.SavedImage("first"))
	end := Request(api.Instantiate, api.PhaseEnd)
	end.Topology = RegistryTopology(RegistryServer)
	op := w.Post(end)
	w.Converge(RegistryServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w
}

// BlobNames are the names of all blobs that the controller has.
func (w *World) BlobNames() (names []string) {
	w.Helper()
	w.Must(filepath.WalkDir(filepath.Join(w.Config.DataDirectory, "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	}))
	return names
}
