package containerdconf_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
)

var v21 = containerdconf.Version{Major: 2, Minor: 1}

const (
	cri    = "[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"
	images = "[plugins.\"io.containerd.cri.v1.images\".registry]\n"
	both   = "/etc/containerd/certs.d:/etc/docker/certs.d"
)

// TestDirectories: where each containerd looks for hosts.toml, as `config dump` of 1.6
// and 2.2 shows it.
func TestDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		version containerdconf.Version
		content string
		wanted  []string
	}{
		"nothing set, 1.6":                             {v16, "", nil},
		"nothing set, 2.1":                             {v21, "", nil},
		"2.2: a list by itself, not looked into":       {v22, "", nil},
		"2.2: the same, and pulls that take it":        {v22, "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nuse_local_image_pull = true\n", strings.Split(both, ":")},
		"2.1: nothing set, and pulls that take a list": {v21, "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nuse_local_image_pull = true\n", nil},
		"2.2: not beside mirrors":                      {v22, "version = 3\n" + images + "mirrors.a.endpoint = ['http://a']\n", nil},
		"2.2: version 2, pulls that take a list":       {v22, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nruntimes.runc = {}\ndisable_snapshot_annotations = false\n", strings.Split(both, ":")},
		"2.2: the same without a runtime":              {v22, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndisable_snapshot_annotations = false\n", nil},
		"2.2: version 2, other concurrency":            {v22, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nmax_concurrent_downloads = 5\nregistry.config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"2.2: version 2 knows no local pull":           {v22, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nuse_local_image_pull = true\nregistry.config_path = '/a:/b'\n", nil},
		"2.2: version 2 beside a login":                {v22, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry.configs.a.auth.username = 'a'\nregistry.config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"2.1: a list and other concurrency":            {v21, "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nmax_concurrent_downloads = 9\nregistry.config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"2.1: a list and the default one":              {v21, "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\nmax_concurrent_downloads = 3\nregistry.config_path = '/a:/b'\n", nil},
		"2.0: a list":                                  {v20, "version = 3\n" + images + "config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"1.6: version 1":                               {v16, "[plugins.cri.registry]\nconfig_path = '/a'\n", []string{"/a"}},
		"1.6: version 1 knows no URI":                  {v16, cri + "config_path = '/a'\n", nil},
		"1.6: version 2":                               {v16, "version = 2\n" + cri + "config_path = '/a:/b'\n", []string{"/a", "/b"}},
		"1.6: version 2 knows no short name":           {v16, "version = 2\n[plugins.cri.registry]\nconfig_path = '/a'\n", nil},
		"1.6: version 3 is as 2":                       {v16, "version = 3\n" + cri + "config_path = '/a'\n", []string{"/a"}},
		"2.0: version 1 loses cri's":                   {v20, "[plugins.cri.registry]\nconfig_path = '/a'\n", nil},
		"2.0: version 1 takes that of images":          {v20, images + "config_path = '/a'\n", []string{"/a"}},
		"2.0: version 2":                               {v20, "version = 2\n" + cri + "config_path = '/a'\n", []string{"/a"}},
		"2.0: version 2 takes that of images":          {v20, "version = 2\n" + images + "config_path = '/a'\n", []string{"/a"}},
		"2.0: version 2 prefers cri's":                 {v20, "version = 2\n" + images + "config_path = '/a'\n" + cri + "config_path = '/b'\n", []string{"/b"}},
		"2.0: version 3":                               {v20, "version = 3\n" + images + "config_path = '/a'\n", []string{"/a"}},
		"2.0: version 3 knows no cri":                  {v20, "version = 3\n" + cri + "config_path = '/a'\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.wanted, read(t, c.content, c.version).Directories(), cmpEmpty); diff != "" {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
		})
	}
}

// cmpEmpty treats nil and an empty list as equal.
var cmpEmpty = cmp.Transformer("none", func(s []string) string { return strings.Join(s, "\n") })

func TestRead(t *testing.T) {
	c := read(t, `version = 2
imports = ["/etc/containerd/conf.d/*.toml", "more.toml"]
disabled_plugins = ["io.containerd.grpc.v1.cri"]
`+cri+`
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
endpoint = ["https://mirror"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."b:5000".auth]
username = "x"
[plugins."io.containerd.grpc.v1.cri".registry.configs."a:5000".tls]
insecure_skip_verify = true
`, v16)
	if c.Schema != 2 || !c.CRIDisabled || c.ConfigPath != "" {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]string{"registry.mirrors", `registry.configs."a:5000".tls`}, c.Legacy); diff != "" {
		t.Errorf("legacy (-wanted +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/etc/containerd/conf.d/*.toml", "/etc/containerd/more.toml"}, c.Imported("/etc/containerd")); diff != "" {
		t.Errorf("imports (-wanted +got):\n%s", diff)
	}
}

func TestCRIDisabled(t *testing.T) {
	for name, c := range map[string]struct {
		version containerdconf.Version
		content string
		wanted  bool
	}{
		"as docker.com ships it":          {v16, "disabled_plugins = ['cri']\n", true},
		"the same and containerd 2":       {v22, "disabled_plugins = ['cri']\n", true},
		"version 1 knows no URI":          {v16, "disabled_plugins = ['io.containerd.grpc.v1.cri']\n", false},
		"version 2":                       {v16, "version = 2\ndisabled_plugins = ['x', 'io.containerd.grpc.v1.cri']\n", true},
		"version 3":                       {v20, "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n", true},
		"the part of it that has images":  {v20, "version = 3\ndisabled_plugins = ['io.containerd.cri.v1.images']\n", true},
		"other plugins":                   {v20, "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.images']\n", false},
		"none":                            {v16, "version = 2\ndisabled_plugins = []\n", false},
		"no list of them, and no content": {v16, "", false},
	} {
		if got := read(t, c.content, c.version).CRIDisabled; got != c.wanted {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWith: what a drop-in does to config.toml, as `config dump` shows it.
func TestWith(t *testing.T) {
	const unrelated = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_selinux = true\n"
	for name, c := range map[string]struct {
		version      containerdconf.Version
		main, dropIn string
		wanted       []string
		disabled     bool
	}{
		"1.6: another setting of the plugin takes all away":   {v16, "version = 2\n" + cri + "config_path = '/a'\n", unrelated, nil, false},
		"2.2: another setting of the plugin takes none away":  {v22, "version = 2\n" + cri + "config_path = '/a'\n", unrelated, []string{"/a"}, false},
		"1.6: another plugin":                                 {v16, "version = 2\n" + cri + "config_path = '/a'\n", "version = 2\ndisabled_plugins = ['x']\n", []string{"/a"}, false},
		"1.6: another path":                                   {v16, "version = 2\n" + cri + "config_path = '/a'\n", "version = 2\n" + cri + "config_path = '/b'\n", []string{"/b"}, false},
		"2.2: another path":                                   {v22, "version = 3\n" + images + "config_path = '/a'\n", "version = 3\n" + images + "config_path = '/b'\n", []string{"/b"}, false},
		"1.6: the drop-in disables what config.toml does not": {v16, "version = 2\n", "version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, c.main, c.version).With(read(t, c.dropIn, c.version))
			if diff := cmp.Diff(c.wanted, got.Directories(), cmpEmpty); diff != "" || got.CRIDisabled != c.disabled {
				t.Errorf("disabled %v (-wanted +got):\n%s", got.CRIDisabled, diff)
			}
		})
	}
	for version, wanted := range map[containerdconf.Version][]string{v16: nil, v22: {containerdconf.Directory}} {
		got := read(t, "version = 2\n", version).Set().With(read(t, unrelated, version)).Directories()
		if diff := cmp.Diff(wanted, got, cmpEmpty); diff != "" {
			t.Errorf("%s: set in config.toml alone (-wanted +got):\n%s", version, diff)
		}
	}
	main := read(t, "version = 2\n", v16)
	legacy := read(t, "version = 2\n"+cri+"mirrors.a.endpoint = ['http://a']\n", v16)
	if got := main.With(legacy, read(t, "version = 2\n", v16)); len(got.Legacy) != 1 || len(main.Legacy) != 0 {
		t.Errorf("legacy settings of a drop-in: %q", got.Legacy)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		version         containerdconf.Version
		content, wanted string
	}{
		"no TOML":            {v16, "version = 2\nx = \n", "line 2, column"},
		"a key twice":        {v16, "version = 2\nversion = 2\n", "line 2"},
		"a version to come":  {v20, "version = 4\n", "version = 4: containerd 2.0 knows versions 1 to 3"},
		"no number":          {v16, "version = '2'\n", "version = 2"},
		"plugins":            {v16, "plugins = 1\n", "plugins is no table"},
		"a plugin":           {v16, "[plugins]\ncri = 1\n", "cri is no table"},
		"registry":           {v16, "[plugins.cri]\nregistry = []\n", "registry is no table"},
		"config_path":        {v16, "[plugins.cri.registry]\nconfig_path = ['/a']\n", "config_path of the plugin cri is no string"},
		"mirrors":            {v16, "[plugins.cri.registry]\nmirrors = 1\n", "mirrors is no table"},
		"configs":            {v16, "[plugins.cri.registry]\nconfigs = 1\n", "configs is no table"},
		"one of configs":     {v16, "[plugins.cri.registry]\nconfigs.a = 1\n", "a is no table"},
		"imports":            {v16, "imports = 'x'\n", "imports is no list of strings"},
		"one of the imports": {v16, "imports = [1]\n", "imports is no list of strings"},
		"disabled_plugins":   {v16, "disabled_plugins = 'cri'\n", "disabled_plugins is no list of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := containerdconf.SetConfigPath([]byte(c.content), c.version); err == nil || !strings.Contains(err.Error(), c.wanted) || got != nil {
				t.Errorf("set: %q, %v", got, err)
			}
		})
	}
}

// TestNoLegacy has the settings that are allowed together with config_path.
func TestNoLegacy(t *testing.T) {
	for name, c := range map[string]struct {
		version containerdconf.Version
		content string
	}{
		"tables without anything, as `config default` of 1.6 has them": {v16, "version = 2\n" + cri + "mirrors = {}\nconfigs = {}\nauths = {}\n"},
		"logins":                              {v16, "version = 2\n" + cri + "configs.a.auth.username = 'x'\n"},
		"TLS that containerd 2 knows no more": {v20, "version = 2\n" + cri + "configs.a.tls.insecure_skip_verify = true\n"},
	} {
		if c := read(t, c.content, c.version); len(c.Legacy) > 0 {
			t.Errorf("%s: %q", name, c.Legacy)
		}
	}
}

// TestLegacyRefused: containerd would not start with both.
func TestLegacyRefused(t *testing.T) {
	content := "version = 2\n" + cri + "[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.a]\nendpoint = ['http://a']\n"
	if got, err := containerdconf.SetConfigPath([]byte(content), v16); err == nil || got != nil || !strings.Contains(err.Error(), "registry.mirrors") {
		t.Errorf("%q, %v", got, err)
	}
}
