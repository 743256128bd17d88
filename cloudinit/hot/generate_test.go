package hot

import (
	"embed"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/cloudinit"
)

var update = flag.Bool("update", false, "write the templates anew from source/")

//go:embed source
var source embed.FS

// server is one that is not a member of a group.
type server struct{ VDU, CP, Agent, After string }

// shape is what one template is made of.
type shape struct {
	Complex, Storage bool
	Shared, Grouped  bool // a member: with the masters' address, with security groups
	Node, CP, Group  string
	Server           server
	Parameters       string
}

// generated are all templates, made of source/ and of what cloudinit renders.
func generated(t *testing.T) map[string]string {
	t.Helper()
	parameters := part(t, "source/parameters.yaml")
	storage := server{"storage_server", "storage_server_CP", "storage_server_agent", "storage_server_attachment"}
	registry := server{"PrivateRegistryVDU", "CP1", "registry_agent", "PrivateRegistryVDU"}
	return map[string]string{
		Agent:                       agent(t),
		"nodehitch-master.yaml":     render(t, "member", shape{Node: "masterNode", CP: "masterNode_CP1", Group: "master_instance"}),
		"nodehitch-master-vip.yaml": render(t, "member", shape{Shared: true, Grouped: true, Node: "masterNode", CP: "masterNode_CP1", Group: "master_instance"}),
		"nodehitch-worker.yaml":     render(t, "member", shape{Node: "workerNode", CP: "workerNode_CP2", Group: "worker_instance"}),
		"nodehitch-worker-vip.yaml": render(t, "member", shape{Grouped: true, Node: "workerNode", CP: "workerNode_CP2", Group: "worker_instance"}),
		"simple.yaml":               render(t, "cluster", shape{Parameters: parameters}),
		"simple-storage.yaml":       render(t, "cluster", shape{Storage: true, Server: storage, Parameters: parameters}),
		"complex.yaml":              render(t, "cluster", shape{Complex: true, Parameters: parameters}),
		"complex-storage.yaml":      render(t, "cluster", shape{Complex: true, Storage: true, Server: storage, Parameters: parameters}),
		"registry.yaml":             render(t, "registry", shape{Server: registry, Parameters: parameters}),
	}
}

func part(t *testing.T, name string) string {
	t.Helper()
	text, err := source.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// agent is source/agent.yaml with the cloud-config that cloudinit.Render writes,
// in which the agent's configuration is a function of the parameters.
func agent(t *testing.T) string {
	configuration := "\n" + indent(part(t, "source/configuration.yaml"), "    ")
	return strings.NewReplacer(
		"@CLOUD-CONFIG@\n", indent(cloudinit.CloudConfig(configuration), "        ")+"\n",
		"@CLUSTER-CONFIG@\n", indent(cloudinit.ClusterConfig(" {get_param: cluster_script}\n"), "        ")+"\n",
	).Replace(part(t, "source/agent.yaml"))
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}

func render(t *testing.T, name string, s shape) string {
	t.Helper()
	parsed, err := template.New("").Delims("<<", ">>").Option("missingkey=error").ParseFS(source, "source/*.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := parsed.ExecuteTemplate(&b, name+".yaml.tmpl", s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The tree has the templates as people use them, and their common parts once, in source/.
// This test keeps the two equal.
func TestTemplatesMatchTheirSources(t *testing.T) {
	want := generated(t)
	for name, text := range want {
		path := filepath.Join("templates", name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s is not what its sources say; `go test ./cloudinit/hot -update` writes it (- sources, + file):\n%s", name, diff)
		}
	}
}
