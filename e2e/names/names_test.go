package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// changes are edits of the product, each with the lines of the list that it changes.
var changes = []struct {
	file, old, new string
	lines          []string
}{
	{"shared/api/openapi.yaml", "    JoinToken:\n      description: What user_data of every VM of the instance carries.\n      type: object\n      required: [token]\n      properties:\n",
		"    JoinToken:\n      type: object\n      required: [token]\n      properties:\n        example: {type: boolean}\n",
		[]string{"+JoinToken.example boolean"}},
	{"shared/api/openapi.yaml", "      operationId: getReadyz\n", "      operationId: getReadiness\n",
		[]string{"-GET /readyz is getReadyz, for everybody", "+GET /readyz is getReadiness, for everybody"}},
	{"shared/api/reason.go", "\tReasonReady    Reason = \"Ready\"\n", "\tReasonReady    Reason = \"Ready\"\n\tReasonExample    Reason = \"Example\"\n",
		[]string{"+Example"}},
	{"shared/api/problem.go", `ProblemPrefix + "too-large"`, `ProblemPrefix + "example"`,
		[]string{"-urn:nodehitch:problem:too-large 413", "+urn:nodehitch:problem:example 413"}},
	{"shared/params/cluster.go", `text(o, "vim_name", optional`, `text(o, "example", required`,
		[]string{"-k8s_cluster_installation_param.vim_name string", "+k8s_cluster_installation_param.example string, required"}},
	{"controller/telemetry/telemetry.go", `"nodehitch_long_polls_in_flight"`, `"nodehitch_example_polls"`,
		[]string{"-nodehitch_long_polls_in_flight gauge", "+nodehitch_example_polls gauge"}},
	{"controller/telemetry/telemetry.go", `[]string{"type"}`, `[]string{"example"}`,
		[]string{"-nodehitch_store_transaction_duration_seconds histogram type", "+nodehitch_store_transaction_duration_seconds histogram example"}},
	{"agent/run.go", `&lockFile, "lock-file"`, `&lockFile, "example-file"`,
		[]string{"-nodehitch-agent run --lock-file string = /run/nodehitch/agent.lock", "+nodehitch-agent run --example-file string = /run/nodehitch/agent.lock"}},
	{"controller/hitchctl/command/root.go", `Use: "version"`, `Use: "example"`,
		[]string{"-hitchctl version", "+hitchctl example"}},
	{"controller/hitchctl/connect/connect.go", `getenv("NODEHITCH_SERVER")`, `getenv("NODEHITCH_EXAMPLE")`,
		[]string{"-NODEHITCH_SERVER (hitchctl)", "+NODEHITCH_EXAMPLE (hitchctl)"}},
	{"controller/config/config.go", `json:"maxFileBytes"`, `json:"example"`,
		[]string{"-controller.yaml maxFileBytes int64", "+controller.yaml example int64"}},
	{"agent/role/storage/exportsfile.go", `"/etc/exports.d/nodehitch.exports"`, `"/etc/exports.d/example.exports"`,
		[]string{"-/etc/exports.d/nodehitch.exports (agent)", "+/etc/exports.d/example.exports (agent)"}},
	{"agent/role/storage/journal.go", `json:"phase"`, `json:"example"`,
		[]string{"-agent/role/storage record.phase storage.phase", "+agent/role/storage record.example storage.phase"}},
	{"agent/role/registryserver/container.go", `"io.nodehitch.spec"`, `"io.nodehitch.example"`,
		[]string{"-agent io.nodehitch.spec", "+agent io.nodehitch.example"}},
	{"cloudinit/hot/templates/nodehitch-worker.yaml", "  network: {type: string}\n", "  network: {type: json}\n",
		[]string{"-nodehitch-worker.yaml parameter network string", "+nodehitch-worker.yaml parameter network json"}},
	{"packaging/nodehitch-controller/nfpm.yaml", `dst: /usr/lib/tmpfiles.d/nodehitch-controller.conf`, `dst: /usr/lib/tmpfiles.d/example.conf`,
		[]string{"-nodehitch-controller has /usr/lib/tmpfiles.d/nodehitch-controller.conf", "+nodehitch-controller has /usr/lib/tmpfiles.d/example.conf"}},
	{"cloudinit/render.go", `"/var/lib/nodehitch/bootstrap.py", "0600"`, `"/var/lib/nodehitch/bootstrap.py", "0640"`,
		[]string{"-write_files /var/lib/nodehitch/bootstrap.py root:root 0600", "+write_files /var/lib/nodehitch/bootstrap.py root:root 0640"}},
}

// The changes are made at once, in a tree that only the build sees, and the list differs
// in their lines and in no other.
func TestEachChangedNameIsListed(t *testing.T) {
	before, err := render(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	edited, replace, want := map[string]string{}, map[string]string{}, []string{}
	for _, c := range changes {
		path := filepath.Join(root, c.file)
		if _, again := edited[path]; !again {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			edited[path] = string(text)
		}
		if n := strings.Count(edited[path], c.old); n != 1 {
			t.Fatalf("%s has %q %d times: make the change anew", c.file, c.old, n)
		}
		edited[path] = strings.Replace(edited[path], c.old, c.new, 1)
		want = append(want, c.lines...)
	}
	for path, text := range edited {
		replace[path] = filepath.Join(t.TempDir(), filepath.Base(path))
		write(t, replace[path], []byte(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	write(t, file, overlay)

	cmd := exec.CommandContext(t.Context(), "go", "run", "-overlay", file, ".", "-overlay", file)
	cmd.Stderr = os.Stderr
	after, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(once(want), once(difference(before, string(after)))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// difference is the lines that one text has and the other has not.
func difference(before, after string) (list []string) {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			list = append(list, "-"+line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			list = append(list, "+"+line)
		}
	}
	return list
}
