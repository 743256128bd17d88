package containerdconf_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/e2e/containerd"
)

const (
	cri    = "[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"
	images = "[plugins.\"io.containerd.cri.v1.images\".registry]\n"
)

// read reads what a real containerd makes of a file.
func read(t *testing.T, version, content string) containerdconf.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	dump, err := exec.CommandContext(t.Context(), containerd.Program(t, version), "--config", path, "config", "dump").Output()
	if err != nil {
		t.Fatal(err)
	}
	v, err := containerdconf.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	c, err := containerdconf.Read(dump, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDirectories: what a dump does not say is how containerd uses a list.
func TestDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		version, content string
		wanted           []string
	}{
		"1.6: nothing set": {"1.6", "", nil},
		"1.6: a list":      {"1.6", "version = 2\n" + cri + "config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"2.0: a list":      {"2.0", "version = 3\n" + images + "config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"2.1: nothing set": {"2.1", "", nil},
		"2.1: nothing set, and pulls that take a list": {"2.1", "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nuse_local_image_pull = true\n", nil},
		"2.1: a list, and pulls that take it":          {"2.1", "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nmax_concurrent_downloads = 9\nregistry.config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"2.1: a list, and the transfer service":        {"2.1", "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nmax_concurrent_downloads = 3\nregistry.config_path = '/a:/b'\n", nil},
		"2.4: a list by itself, not looked into":       {"2.4", "", nil},
		"2.4: the same, and pulls that take it":        {"2.4", "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nuse_local_image_pull = true\n", []string{"/etc/containerd/certs.d", "/etc/docker/certs.d"}},
		"2.4: not beside mirrors":                      {"2.4", "version = 3\n" + images + "mirrors.a.endpoint = ['http://a']\n", nil},
		"2.4: version 2, other concurrency":            {"2.4", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nmax_concurrent_downloads = 5\nregistry.config_path = '/a:/b'\n", []string{"/a", "/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.wanted, read(t, c.version, c.content).Directories(), cmpEmpty); diff != "" {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
		})
	}
}

// cmpEmpty treats nil and an empty list as equal.
var cmpEmpty = cmp.Transformer("none", func(s []string) string { return strings.Join(s, "\n") })

func TestCRIDisabled(t *testing.T) {
	for name, c := range map[string]struct {
		version, content string
		wanted           bool
	}{
		"as docker.com ships it":         {"1.6", "disabled_plugins = ['cri']\n", true},
		"the same and containerd 2":      {"2.1", "disabled_plugins = ['cri']\n", true},
		"version 2":                      {"1.6", "version = 2\ndisabled_plugins = ['io.containerd.x.v1.x', 'io.containerd.grpc.v1.cri']\n", true},
		"version 3":                      {"2.0", "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n", true},
		"the part of it that has images": {"2.0", "version = 3\ndisabled_plugins = ['io.containerd.cri.v1.images']\n", true},
		"other plugins":                  {"2.0", "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.images']\n", false},
		"none":                           {"1.6", "version = 2\ndisabled_plugins = []\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(t, c.version, c.content).CRIDisabled; got != c.wanted {
				t.Error(got)
			}
		})
	}
}

// TestLegacy has what containerd refuses together with config_path, and what it accepts.
func TestLegacy(t *testing.T) {
	for name, c := range map[string]struct {
		version, content string
		wanted           []string
	}{
		"tables without anything, as `config default` of 1.6 has them": {"1.6", "version = 2\n" + cri + "mirrors = {}\nconfigs = {}\nauths = {}\n", nil},
		"logins":                              {"1.6", "version = 2\n" + cri + "configs.a.auth.username = 'x'\n", nil},
		"mirrors":                             {"1.6", "version = 2\n" + cri + "mirrors.a.endpoint = ['http://a']\n", []string{"registry.mirrors"}},
		"TLS":                                 {"1.6", "version = 2\n" + cri + "configs.\"a:5000\".tls.insecure_skip_verify = true\n", []string{`registry.configs."a:5000".tls`}},
		"TLS that containerd 2 knows no more": {"2.0", "version = 2\n" + cri + "configs.a.tls.insecure_skip_verify = true\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.wanted, read(t, c.version, c.content).Legacy, cmpEmpty); diff != "" {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
		})
	}
}
