package agentcontroller

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/api"
)

const bodies = "../../shared/params/testdata/"

// vnf is an instance with a VNF package on disk, and the agents of its servers.
type vnf struct {
	controller
	id, body, pack string
	nodes          map[string]*node // by name
	operations     int
}

// newVNF is an instance of a specification's body, word for word.
func newVNF(t *testing.T, c controller, body string, files map[string]string) *vnf {
	t.Helper()
	v := &vnf{controller: c, id: uuid.NewString(), body: filepath.Join(t.TempDir(), body), pack: t.TempDir(), nodes: map[string]*node{}}
	text, err := os.ReadFile(bodies + body)
	if err == nil {
		err = os.WriteFile(v.body, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		v.file(path, content)
	}
	v.Must("validate", "-f", v.body, "--package", v.pack)
	v.apply()
	return v
}

// file puts a file into the package.
func (v *vnf) file(path, content string) {
	v.t.Helper()
	path = filepath.Join(v.pack, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		v.t.Fatal(err)
	}
}

// edit changes the request.
func (v *vnf) edit(old, with string) {
	v.t.Helper()
	text, err := os.ReadFile(v.body)
	if err == nil && !bytes.Contains(text, []byte(old)) {
		err = errors.New("the request has no " + old)
	}
	if err == nil {
		err = os.WriteFile(v.body, bytes.Replace(text, []byte(old), []byte(with), 1), 0o600)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *vnf) apply() string {
	v.t.Helper()
	return v.Must("apply", v.id, "-f", v.body, "--package", v.pack)
}

// operate starts an agent for each server, which has the name, the connection point
// and the volumes, and waits until the operation has completed.
func (v *vnf) operate(operation string, points map[string]string, volumes ...api.TopologyVolume) {
	v.t.Helper()
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE", Volumes: volumes}
	for name, point := range points {
		s := api.Server{ID: uuid.NewString(), Name: name,
			ConnectionPoints: []api.ConnectionPoint{{Name: point, Addresses: []string{"192.168.0.10"}}}}
		for _, volume := range volumes {
			s.VolumeIds = append(s.VolumeIds, volume.ID)
		}
		topology.Servers = append(topology.Servers, s)
		v.nodes[name] = nodeOf(v.t, v.controller, v.id, s.ID)
	}
	text, err := json.Marshal(topology)
	if err != nil {
		v.t.Fatal(err)
	}
	v.file("topology.json", string(text))
	v.Must("operate", v.id, operation, "--topology", filepath.Join(v.pack, "topology.json"))
	for _, n := range v.nodes {
		n.start()
	}
	v.operations++
	v.Must("wait", "operation", fmt.Sprintf("%s/%d", v.id, v.operations))
}

// savedImage is what `docker save` writes, without layers.
func savedImage(t *testing.T, note string) string {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, f := range [][2]string{{"manifest.json", `[{"RepoTags":["registry:latest"]}]`}, {"note", strings.Repeat(note, 1<<16)}} {
		err := archive.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(f[1]))})
		if err == nil {
			_, err = archive.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// holds says whether the node has converged to a document whose one file is this.
func (n *node) holds(content string) bool {
	doc := n.last()
	named := doc.Files()
	if len(named) != 1 || !n.files.Has(named[0]) {
		return false
	}
	got, err := os.ReadFile(n.files.Path(named[0]))
	return err == nil && string(got) == content
}
