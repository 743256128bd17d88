package cloudinit_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T) cloudinit.Params {
	t.Helper()
	root, err := os.ReadFile("testdata/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := client.ParseRoot(root, "")
	if err != nil {
		t.Fatal(err)
	}
	return cloudinit.Params{
		ControllerURLs: []string{"https://controller.example:8443", "https://[2001:db8::1]:8443", "https://192.0.2.1"},
		RootPEM:        root, Pin: client.Pin(cert),
		JoinToken: "0b1a5c2e-0000-4000-8000-000000000001.c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0",
	}
}

func render(t *testing.T, p cloudinit.Params) []byte {
	t.Helper()
	text, err := cloudinit.Render(p, "")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// document is what cloud-init makes of it.
type document struct {
	WriteFiles []struct{ Path, Owner, Permissions, Content string } `json:"write_files"`
	BootCmd    [][]string                                           `json:"bootcmd"`
	RunCmd     [][]string                                           `json:"runcmd"`
}

func read(t *testing.T, userData []byte) map[string]string {
	t.Helper()
	var doc document
	if err := yaml.UnmarshalStrict(userData, &doc); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range doc.WriteFiles {
		files[f.Path] = f.Content
	}
	return files
}

func TestGolden(t *testing.T) {
	got := render(t, golden(t))
	const path = "testdata/user-data.yaml"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("go test -update writes what is new, if it is meant:\n%s", diff)
	}
	t.Logf("user_data: %d bytes of 65535 that Nova takes", len(got)*4/3)
	if len(got) > 16<<10 {
		t.Errorf("%d bytes: it has grown far beyond what a downloader needs", len(got))
	}
}

func TestYAMLKeepsEveryValue(t *testing.T) {
	files := read(t, render(t, golden(t)))
	for path, source := range map[string]string{
		"/var/lib/nodehitch/bootstrap.py":                 "bootstrap.py",
		"/etc/systemd/system/nodehitch-bootstrap.service": "nodehitch-bootstrap.service",
	} {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), files[path]); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	var got map[string]any
	if err := yaml.UnmarshalStrict([]byte(files["/etc/nodehitch/agent.yaml"]), &got); err != nil {
		t.Fatal(err)
	}
	p := golden(t)
	want := map[string]any{
		"controllerUrls":  []any{p.ControllerURLs[0], p.ControllerURLs[1], p.ControllerURLs[2]},
		"rootCertificate": string(p.RootPEM), "pin": p.Pin, "joinToken": p.JoinToken,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(files) != 3 {
		t.Errorf("writes %d files, want 3", len(files))
	}
}

func TestTheTokenIsOnlyInAFileForRoot(t *testing.T) {
	p := golden(t)
	text := render(t, p)
	if n := bytes.Count(text, []byte(p.JoinToken)); n != 1 {
		t.Errorf("the token is there %d times, want once", n)
	}
	var doc document
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, f := range doc.WriteFiles {
		if strings.Contains(f.Content, p.JoinToken) && f.Permissions != "0600" {
			t.Errorf("%s has mode %s", f.Path, f.Permissions)
		}
	}
}

func TestInvalidParams(t *testing.T) {
	other := testca.Root(t, "other")
	tests := map[string]struct {
		change func(*cloudinit.Params)
		want   string
	}{
		"no URL":            {func(p *cloudinit.Params) { p.ControllerURLs = nil }, "found 0, expected 1 to 16"},
		"many URLs":         {func(p *cloudinit.Params) { p.ControllerURLs = make([]string, 17) }, "found 17"},
		"plain http":        {func(p *cloudinit.Params) { p.ControllerURLs = []string{"http://a"} }, "expected https://host[:port]"},
		"a path":            {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://a/b"} }, "nothing else"},
		"an empty query":    {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://a/?"} }, "nothing else"},
		"a user":            {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://u@a"} }, "nothing else"},
		"a line break":      {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://a\nruncmd:"} }, "expected https"},
		"an odd host":       {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://a'b"} }, "a DNS name or an IP"},
		"an odd port":       {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://a:99999"} }, "a port from 1"},
		"the same twice":    {func(p *cloudinit.Params) { p.ControllerURLs = []string{"https://a", "https://A/"} }, "given twice"},
		"no pin":            {func(p *cloudinit.Params) { p.Pin = "" }, "pin: expected"},
		"a pin of another":  {func(p *cloudinit.Params) { p.Pin = client.Pin(other.Cert) }, "another controller"},
		"two certificates":  {func(p *cloudinit.Params) { p.RootPEM = append(p.RootPEM, other.PEM()...) }, "the root alone"},
		"no token":          {func(p *cloudinit.Params) { p.JoinToken = "" }, "join token: expected"},
		"a token with more": {func(p *cloudinit.Params) { p.JoinToken += "\nx: hunter2" }, "join token: expected"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := golden(t)
			test.change(&p)
			got, err := cloudinit.Render(p, "")
			if err == nil || got != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	_, err := cloudinit.Render(cloudinit.Params{}, "")
	for _, want := range []string{"controller URLs", "root certificate", "pin", "join token"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want everything at once, also %q", err, want)
		}
	}
}

func TestCloudInitAcceptsIt(t *testing.T) {
	tool, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is not installed (apt-get install cloud-init)")
	}
	path := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(path, render(t, golden(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "schema", "-c", path).CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte("Valid cloud-config")) {
		t.Errorf("cloud-init schema: %v", err)
	}
}
