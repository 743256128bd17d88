package agentcontroller

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const bodies = "../../shared/params/testdata/"

// vnf is an instance with a VNF package on disk, and the agents of its servers.
type vnf struct {
	controller
	id, body, pack string
	nodes          map[string]*node // by name
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
	v.hitchctl("validate", "-f", v.body, "--package", v.pack)
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

func (v *vnf) hitchctl(args ...string) string {
	v.t.Helper()
	out, err := v.Hitchctl(args...)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(out)
}

func (v *vnf) apply() string {
	v.t.Helper()
	return v.hitchctl("apply", v.id, "-f", v.body, "--package", v.pack)
}

// instantiate starts an agent for each server, named by its connection point, and
// waits until the operation has completed.
func (v *vnf) instantiate(points map[string]string) {
	v.t.Helper()
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE"}
	for name, point := range points {
		id := uuid.NewString()
		topology.Servers = append(topology.Servers, api.Server{ID: id, Name: name,
			ConnectionPoints: []api.ConnectionPoint{{Name: point, Addresses: []string{"192.168.0.10"}}}})
		v.nodes[name] = nodeOf(v.t, v.controller, v.id, id)
	}
	text, err := json.Marshal(topology)
	if err != nil {
		v.t.Fatal(err)
	}
	v.file("topology.json", string(text))
	v.hitchctl("operate", v.id, "INSTANTIATE", "--topology", filepath.Join(v.pack, "topology.json"))
	for _, n := range v.nodes {
		n.start()
	}
	v.hitchctl("wait", "operation", v.id)
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

// The specification's registry, from its request to the image on the node; then
// another image under the same path.
func TestTheRegistryVNF(t *testing.T) {
	const path = "Files/images/private_registry.tar"
	first, second := savedImage(t, "first"), savedImage(t, "second")
	v := newVNF(t, newController(t), "private-registry.json", map[string]string{path: first})
	v.instantiate(map[string]string{"registry": "CP1"})
	n := v.nodes["registry"]
	if !n.holds(first) {
		t.Fatalf("the node has converged to %+v, without the image", n.last())
	}
	if r := n.last().Registry; r.Port != 5000 || r.DataDirectory != "/home/ubuntu/registry" {
		t.Errorf("registry section %+v", r)
	}
	if out := v.hitchctl("describe", "node", "registry"); !strings.Contains(out, api.ConditionRegistryRunning) {
		t.Errorf("describe node says nothing of the registry:\n%s", out)
	}
	v.file(path, second)
	v.apply()
	loopback.Until(t, "the node has the second image", func() bool { return n.holds(second) })
	v.hitchctl("operate", v.id, "TERMINATE")
	v.hitchctl("delete", "instance", v.id)
	left, err := filepath.Glob(filepath.Join(v.Data(), "blobs", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files %v are left (%v)", left, err)
	}
}

// The specification's cluster with its two registries: each node gets the CA and the
// login, another CA and another password too, and no file of anybody else.
func TestTheRegistriesOfACluster(t *testing.T) {
	const path, script = "Files/registries/ca.crt", "#!/bin/sh\n"
	first, second := string(testca.Root(t, "first").PEM()), string(testca.Root(t, "second").PEM())
	v := newVNF(t, newController(t), "registry-connections.json", map[string]string{path: first, "Scripts/install_k8s_cluster.sh": script})
	v.instantiate(map[string]string{"master": "masterNode_CP1", "worker": "workerNode_CP2"})
	everywhere := func(what, ca, password string) {
		t.Helper()
		for name, n := range v.nodes {
			loopback.Until(t, name+" has "+what, func() bool {
				r := n.last().Registries
				return len(r) == 2 && r[1].Password == password && n.holds(ca)
			})
			loopback.Until(t, name+" is Ready with "+what, func() bool { return v.Node(n.id).Ready })
		}
	}
	everywhere("what the request says", first, "user01")
	if got := v.nodes["worker"].last().Registries; got[0].Server != "192.168.0.10:5000" || got[0].Scheme != api.RegistryHTTP ||
		got[1].Server != "registry.example.com" || got[1].HostsEntry.Address != "192.168.0.20" {
		t.Errorf("registries %+v", got)
	}
	for _, f := range must(client.Read[api.Instance](v.API.GetInstance(t.Context(), v.id)))(t).Files {
		err := v.nodes["worker"].files.Fetch(t.Context(), api.FileReference{Sha256: f.Sha256, SizeBytes: f.SizeBytes})
		var waiting *converge.Waiting
		if named := f.Path == path; named != (err == nil) || err != nil && (!errors.As(err, &waiting) || waiting.Reason != api.ReasonFileUnavailable) {
			t.Errorf("fetching %s: %v", f.Path, err)
		}
	}
	text, err := os.ReadFile(v.body)
	if err == nil {
		err = os.WriteFile(v.body, bytes.Replace(text, []byte(`"password": "user01"`), []byte(`"password": "n3w pässword"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := v.apply()
	everywhere("the new password", first, "n3w pässword")
	v.file(path, second)
	out += v.apply() + v.hitchctl("describe", "instance", v.id) + v.hitchctl("describe", "node", "worker") + v.hitchctl("get", "nodes", "-o", "json")
	everywhere("the new CA", second, "n3w pässword")
	if strings.Contains(out+string(v.Log())+v.nodes["worker"].logs.String(), "n3w pässword") {
		t.Errorf("the password is shown:\n%s", out)
	}
	if left, err := filepath.Glob(filepath.Join(v.Data(), "blobs", "*", "*")); err != nil || len(left) != 2 {
		t.Errorf("files %v (%v), want the script and the second CA", left, err)
	}
	if g := v.nodes["worker"].last().Generation; g != 3 {
		t.Errorf("the worker is in generation %d, want one for the password and one for the CA", g)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
