package hot

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/shared/client"
)

const token = "0b1a5c2e-0000-4000-8000-000000000001.c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"

var urls = []string{"https://controller.example:8443", "https://[2001:db8::1]:8443"}

// cloudConfig is what cloud-init's modules get.
type cloudConfig struct {
	WriteFiles []struct{ Path, Owner, Permissions, Encoding, Content string } `json:"write_files"`
	BootCmd    []any                                                          `json:"bootcmd"`
	RunCmd     []any                                                          `json:"runcmd"`
	Timezone   string                                                         `json:"timezone"`
	MergeHow   any                                                            `json:"merge_how"`
}

// consumed is what cloud-init itself makes of user_data.
type consumed struct {
	Config  cloudConfig `json:"config"`
	Scripts []string    `json:"scripts"`
}

func (c *consumed) file(path string) string {
	text := ""
	for _, f := range c.Config.WriteFiles {
		if f.Path == path {
			text = f.Content // the last is what stays on the disk
		}
	}
	return text
}

func rootPEM(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parameters of a role whose servers have this user_data of their own.
func parameters(t *testing.T, own string) map[string]any {
	t.Helper()
	root, err := client.ParseRoot([]byte(rootPEM(t)), "")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"controller_urls": []any{urls[0], urls[1]}, "root_certificate": rootPEM(t),
		"pin": client.Pin(root), "join_token": token, "own_user_data": own}
}

// consume makes cloud-init read the user_data as at a first boot.
func consume(t *testing.T, userData string) *consumed {
	t.Helper()
	const python = "/usr/bin/python3" // cloud-init's, whichever else there is
	if err := exec.CommandContext(t.Context(), python, "-c", "import cloudinit").Run(); err != nil {
		t.Skip("cloud-init is not installed (apt-get install cloud-init)")
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/consume.py", t.TempDir())
	cmd.Stdin = strings.NewReader(userData)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failure.String())
	}
	var c consumed
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &c
}

// rendered is what the machine would get by `hitchctl render user-data`.
func rendered(t *testing.T, p map[string]any) cloudConfig {
	t.Helper()
	text, err := cloudinit.Render(cloudinit.Params{ControllerURLs: urls, RootPEM: []byte(rootPEM(t)), Pin: p["pin"].(string), JoinToken: token}, "")
	if err != nil {
		t.Fatal(err)
	}
	var c cloudConfig
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// agentYAML is the configuration as the agent reads it.
func agentYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil { // as bootstrap.py does
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

func TestTheServersOwnUserDataStaysBesideOurs(t *testing.T) {
	const config = "#cloud-config\ntimezone: Europe/Berlin\nbootcmd:\n- echo own boot\nruncmd:\n- [echo, 'own grün']\n" +
		"write_files:\n- {path: /etc/own, content: theirs}\n- {path: /etc/nodehitch/agent.yaml, content: theirs}\n"
	for name, test := range map[string]struct {
		own       string
		ownRun    []any
		ownFiles  int
		ownScript []string
	}{
		"nothing":        {"", nil, 0, []string{}},
		"a cloud-config": {config, []any{[]any{"echo", "own grün"}}, 2, []string{}},
		"a script":       {"#!/bin/sh\nprintf 'own\\n'\n", nil, 0, []string{"#!/bin/sh\nprintf 'own\\n'\n"}},
		"a python script": {"#!/usr/bin/python3\nprint(\"--boundary\\nContent-Type: text/plain\")\n", nil, 0,
			[]string{"#!/usr/bin/python3\nprint(\"--boundary\\nContent-Type: text/plain\")\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := parameters(t, test.own)
			header, text := userData(t, p)
			got, want := consume(t, header+text), rendered(t, p)
			if diff := cmp.Diff(append(test.ownRun, want.RunCmd...), got.Config.RunCmd); diff != "" {
				t.Errorf("runcmd: %s", diff)
			}
			if n := len(got.Config.BootCmd); n != 1+len(test.ownRun) || !cmp.Equal(want.BootCmd[0], got.Config.BootCmd[n-1]) {
				t.Errorf("bootcmd: %v", got.Config.BootCmd)
			}
			files := got.Config.WriteFiles
			if len(files) != test.ownFiles+3 {
				t.Fatalf("%d files: %+v", len(files), files)
			}
			for i, f := range want.WriteFiles {
				is := files[test.ownFiles+i]
				if i == 0 { // agent.yaml, the same but for blanks
					if diff := cmp.Diff(agentYAML(t, f.Content), agentYAML(t, is.Content)); diff != "" {
						t.Error(diff)
					}
					is.Content = f.Content
				}
				if diff := cmp.Diff(f, is); diff != "" {
					t.Error(diff)
				}
			}
			if diff := cmp.Diff(test.ownScript, got.Scripts); diff != "" {
				t.Errorf("scripts: %s", diff)
			}
			if zone := got.Config.Timezone; (zone != "") != (test.own == config) {
				t.Errorf("timezone %q", zone)
			}
		})
	}
}

// A value is never read as YAML, a template or a MIME boundary.
func TestValuesAreEscaped(t *testing.T) {
	hostile := []string{
		"\"}\nruncmd:\n- touch /hostile\n", "'\n  - path: /hostile", "configuration", "{get_param: join_token}",
		"__NODEHITCH_HEAT_SIGNAL_URL__", "\x01\u2028\\u0022", "--===============1==\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n",
		"#cloud-config", "%s ${x} $(x) `x`", "- a: &a [*a]", "ü€𝄞",
	}
	for _, value := range hostile {
		for _, name := range []string{"controller_urls", "root_certificate", "pin", "join_token"} {
			t.Run(name, func(t *testing.T) {
				p := parameters(t, "")
				p[name] = value
				want := map[string]any{"controllerUrls": p["controller_urls"], "rootCertificate": p["root_certificate"], "pin": p["pin"], "joinToken": p["join_token"]}
				var config cloudConfig
				if err := yaml.UnmarshalStrict([]byte(ours(t, p)), &config); err != nil {
					t.Fatal(err)
				}
				if len(config.RunCmd) != 1 || len(config.WriteFiles) != 3 {
					t.Errorf("more than ours: %+v", config)
				}
				if diff := cmp.Diff(want, agentYAML(t, config.WriteFiles[0].Content)); diff != "" {
					t.Errorf("%q as %s: %s", value, name, diff)
				}
			})
		}
	}
}

func TestTheWaitConditionURLHasItsPlace(t *testing.T) {
	p := parameters(t, "")
	p["nodehitch_wait_for_nodes"] = true
	header, text := userData(t, p)
	const url, secret = "http://10.10.0.1:8004/v1/p/stacks/s%20/id/resources/signal/signal?a=b&c=d%3D", "gAAAAABr_9LIQkr-MDgeE=="
	for place, value := range map[string]string{"__NODEHITCH_HEAT_SIGNAL_URL__": url, "__NODEHITCH_HEAT_SIGNAL_TOKEN__": secret} {
		if n := strings.Count(text, place); n != 1 {
			t.Errorf("%s is there %d times", place, n)
		}
		text = strings.Replace(text, place, value, 1)
	}
	got := agentYAML(t, consume(t, header+text).file("/etc/nodehitch/agent.yaml"))
	if got["heatSignalUrl"] != url || got["heatSignalToken"] != secret {
		t.Errorf("%v, %v", got["heatSignalUrl"], got["heatSignalToken"])
	}
	if text := ours(t, parameters(t, "")); strings.Contains(text, "heatSignal") {
		t.Error("a URL to signal, although Heat does not wait")
	}
}

// Nova takes 65535 bytes of base64, and Heat encodes what is not ASCII as base64
// within that.
func TestTheLargestUserDataFits(t *testing.T) {
	p := parameters(t, "")
	text := ours(t, p)
	const own, wrap = cloudinit.MaxOwn, 78.0 / 76 // base64 in lines
	largest := base64.StdEncoding.EncodedLen(len(text) + 512 + own)
	if largest > 65535 {
		t.Errorf("%d bytes with %d of the server's own, Nova takes 65535", largest, own)
	}
	t.Logf("ours: %d bytes; with %d of the server's own Nova gets %d; what is not ASCII may have %d",
		base64.StdEncoding.EncodedLen(len(text)), own, largest, int((65535.0*3/4-float64(len(text)+512))*3/4/wrap))
}

func TestOurPartIsASCII(t *testing.T) {
	for i, b := range []byte(ours(t, parameters(t, ""))) {
		if b >= 0x80 {
			t.Fatalf("byte %d is not ASCII: Heat would encode the part, and a server's URL would not find its place", i)
		}
	}
}

func TestCloudInitAcceptsTheUserData(t *testing.T) {
	tool, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is not installed (apt-get install cloud-init)")
	}
	path := filepath.Join(t.TempDir(), "cloud-config")
	if err := os.WriteFile(path, []byte(ours(t, parameters(t, ""))), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "schema", "-c", path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("Valid cloud-config")) {
		t.Errorf("%v: %s", err, out)
	}
}
