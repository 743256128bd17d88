package cloudinit_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
)

// junk are bytes that do not compress, with every value.
func junk(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

func pack(t *testing.T, script []byte) cloudinit.ClusterScript {
	t.Helper()
	packed, err := cloudinit.PackClusterScript(script)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// unpacked is what cloud-init makes of content with the encoding gz+b64.
func unpacked(t *testing.T, content string) []byte {
	t.Helper()
	compressed, err := base64.StdEncoding.DecodeString(content)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// The script arrives as it is, whatever its bytes, and before the agent that writes its facts.
func TestUserDataWithTheClustersScript(t *testing.T) {
	script := append([]byte("#!/bin/sh\nexit 0\n"), junk(1000)...)
	text, err := cloudinit.Render(golden(t), pack(t, script))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		WriteFiles []struct{ Path, Owner, Permissions, Encoding, Content string } `json:"write_files"`
		BootCmd    [][]string                                                     `json:"bootcmd"`
		RunCmd     [][]string                                                     `json:"runcmd"`
	}
	if err := yaml.UnmarshalStrict(text, &doc); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range doc.WriteFiles {
		dir, name := filepath.Split(f.Path)
		switch {
		case f.Path == "/var/lib/nodehitch/cluster-script":
			found++
			if f.Encoding != "gz+b64" || f.Permissions != "0700" || !bytes.Equal(unpacked(t, f.Content), script) {
				t.Errorf("the script arrives as another one: %s, %s", f.Encoding, f.Permissions)
			}
		case strings.HasPrefix(name, "nodehitch-cluster"):
			found++
			want, err := os.ReadFile(name)
			if err != nil || f.Content != string(want) || dir != "/etc/systemd/system/" {
				t.Errorf("%s: %v, %q", f.Path, err, f.Content)
			}
		}
	}
	if found != 4 || len(doc.WriteFiles) != 7 {
		t.Errorf("%d of %d files are the script and its units", found, len(doc.WriteFiles))
	}
	started := func(unit string) int {
		return slices.IndexFunc(doc.RunCmd, func(argv []string) bool { return slices.Contains(argv, unit) })
	}
	if p, b := started("nodehitch-cluster.path"), started("nodehitch-bootstrap.service"); p < 0 || b < p {
		t.Errorf("the path is watched by command %d, the agent fetched by %d", p, b)
	}
}

func TestScriptsThatCannotRunAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"empty":           {"", `begins with ""`},
		"binary":          {string(junk(1000)), "expected #! and its interpreter"},
		"a page":          {"<html>\n", `begins with "<html>"`},
		"line of Windows": {"#!/bin/sh\r\nexit 0\r\n", "line ends of Windows"},
		"too large":       {"#!/bin/sh\n" + string(junk(30000)), "expected at most 36000"},
	} {
		t.Run(name, func(t *testing.T) {
			if packed, err := cloudinit.PackClusterScript([]byte(test.script)); err == nil || packed != "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The largest script that is taken fits into what Nova takes, with every URL of a controller.
func TestTheLargestScriptFits(t *testing.T) {
	low, high := 0, 36000 // bytes that do not compress
	for low+1 < high {
		middle := (low + high) / 2
		if _, err := cloudinit.PackClusterScript(append([]byte("#!/bin/sh\n"), junk(middle)...)); err == nil {
			low = middle
		} else {
			high = middle
		}
	}
	text, err := cloudinit.Render(golden(t), pack(t, append([]byte("#!/bin/sh\n"), junk(low)...)))
	if n := base64.StdEncoding.EncodedLen(len(text)); err != nil || n > 65535 || low < 20000 {
		t.Errorf("a script of %d bytes: user_data has %d, %v", low, n, err)
	}
	t.Logf("the largest script that does not compress has %d bytes", low)
}

func TestCloudInitAcceptsTheClustersScript(t *testing.T) {
	tool, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Skip("cloud-init is not installed (apt-get install cloud-init)")
	}
	text, err := cloudinit.Render(golden(t), pack(t, []byte("#!/bin/sh\n")))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "schema", "-c", path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("Valid cloud-config")) {
		t.Errorf("cloud-init schema: %v: %s", err, out)
	}
}
