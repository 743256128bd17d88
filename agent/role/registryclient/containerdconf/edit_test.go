package containerdconf_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
)

var (
	v16 = containerdconf.Version{Major: 1, Minor: 6}
	v20 = containerdconf.Version{Major: 2, Minor: 0}
	v22 = containerdconf.Version{Major: 2, Minor: 2}
)

// edits are files with every way in which TOML can write a table, and the result of the edit.
var edits = map[string]struct {
	version       containerdconf.Version
	before, after string
}{
	"as Debian ships it": {v16, `version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"
`, `version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri".registry] # nodehitch
  config_path = "/etc/containerd/certs.d" # nodehitch
`},
	"version 1, by its absence": {v16,
		"# mine\noom_score = -999\n",
		"# mine\noom_score = -999\n\n[plugins.cri.registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"version 1 and containerd 2, which loses cri's table": {v20,
		"oom_score = -999\n",
		"oom_score = -999\n\n[plugins.\"io.containerd.cri.v1.images\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"nothing but the version": {v16,
		"version = 2\n",
		"version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"version 2 and containerd 2": {v20,
		"version = 2\n",
		"version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"version 2 and containerd 2, in the table of images": {v20,
		"version = 2\n[plugins.\"io.containerd.cri.v1.images\".registry.headers]\n",
		"version = 2\n[plugins.\"io.containerd.cri.v1.images\".registry.headers]\n\n[plugins.\"io.containerd.cri.v1.images\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"version 3, table there, its value empty, with a comment": {v20,
		"version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = ''  # to do\n[debug]\n  level = 'info'\n",
		"version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = \"/etc/containerd/certs.d\" # nodehitch: was ''  # to do\n[debug]\n  level = 'info'\n"},
	"the list that `config default` of 2.2 writes, of which its own pulls see nothing": {v22,
		"version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'\n",
		"version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = \"/etc/containerd/certs.d\" # nodehitch: was '/etc/containerd/certs.d:/etc/docker/certs.d'\n"},
	"table there without the key, no newline at the end": {v16,
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # registries",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # registries\n  config_path = \"/etc/containerd/certs.d\" # nodehitch"},
	"table absent, no newline at the end": {v16,
		"version = 2\n[debug]\nlevel = 'info'",
		"version = 2\n[debug]\nlevel = 'info'\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch"},
	"CRLF": {v16,
		"version = 2\r\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\r\n[debug]\r\n",
		"version = 2\r\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\r\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\r\n[debug]\r\n"},
	"CRLF, table absent": {v16,
		"version = 2\r\n",
		"version = 2\r\n\r\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\r\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\r\n"},
	"only tables below it": {v16,
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.headers]\nX = ['y']\n",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.headers]\nX = ['y']\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"dotted in the plugin's table, where a header may not be": {v16,
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  registry.headers.X = ['y'] # why\n  sandbox_image = 'pause'\n",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  registry.headers.X = ['y'] # why\n  registry.config_path = \"/etc/containerd/certs.d\" # nodehitch\n  sandbox_image = 'pause'\n"},
	"dotted from the root": {v16,
		"version = 2\nplugins.\"io.containerd.grpc.v1.cri\".sandbox_image = 'pause'\n[debug]\n",
		"version = 2\nplugins.\"io.containerd.grpc.v1.cri\".sandbox_image = 'pause'\nplugins.\"io.containerd.grpc.v1.cri\".registry.config_path = \"/etc/containerd/certs.d\" # nodehitch\n[debug]\n"},
	"dotted in plugins": {v16,
		"version = 2\n[plugins]\n'io.containerd.grpc.v1.cri'.sandbox_image = 'pause'\n",
		"version = 2\n[plugins]\n'io.containerd.grpc.v1.cri'.sandbox_image = 'pause'\n'io.containerd.grpc.v1.cri'.registry.config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"registry inline": {v16,
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry = { headers = {} }\n",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry = { config_path = \"/etc/containerd/certs.d\", headers = {} }\n"},
	"registry inline and empty": {v16,
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry = {}\n",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry = { config_path = \"/etc/containerd/certs.d\" }\n"},
	"the plugin inline": {v16,
		"version = 2\n[plugins]\n\"io.containerd.grpc.v1.cri\" = { sandbox_image = 'pause' }\n",
		"version = 2\n[plugins]\n\"io.containerd.grpc.v1.cri\" = { registry = {config_path = \"/etc/containerd/certs.d\"}, sandbox_image = 'pause' }\n"},
	"plugins inline and empty": {v16,
		"version = 2\nplugins = {}\n",
		"version = 2\nplugins = { \"io.containerd.grpc.v1.cri\" = {registry = {config_path = \"/etc/containerd/certs.d\"}} }\n"},
	"arrays of tables around, with the same names in them": {v16,
		"version = 2\n[[x]]\n[x.plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = ''\n[[x]]\n",
		"version = 2\n[[x]]\n[x.plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = ''\n[[x]]\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"the same names in another plugin": {v16,
		"version = 2\n[plugins.\"io.containerd.transfer.v1.local\"]\nconfig_path = ''\n[plugins.\"io.containerd.cri.v1.images\".registry]\nconfig_path = '/old'\n",
		"version = 2\n[plugins.\"io.containerd.transfer.v1.local\"]\nconfig_path = ''\n[plugins.\"io.containerd.cri.v1.images\".registry]\nconfig_path = '/old'\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
	"text that looks like it": {v16,
		"version = 2\nx = '''\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = ''\n'''\n",
		"version = 2\nx = '''\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = ''\n'''\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n"},
}

func TestCandidates(t *testing.T) {
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			found := candidates(t, edit.before, edit.version, containerdconf.Directory)
			if !slices.Contains(found, edit.after) {
				t.Fatalf("among %q (-wanted +first):\n%s", found, cmp.Diff(edit.after, found[0]))
			}
			if again := candidates(t, edit.after, edit.version, containerdconf.Directory); !slices.ContainsFunc(again, func(c string) bool {
				return strings.Contains(c, "# nodehitch") == strings.Contains(edit.after, "# nodehitch") && strings.Count(c, "config_path") == strings.Count(edit.after, "config_path")
			}) {
				t.Errorf("set again: %q", again)
			}
		})
	}
}

func TestNewFile(t *testing.T) {
	for version, wanted := range map[containerdconf.Version]string{
		v16: "# Made by nodehitch-agent: containerd had no configuration.\nversion = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n",
		v22: "# Made by nodehitch-agent: containerd had no configuration.\nversion = 3\n\n[plugins.\"io.containerd.cri.v1.images\".registry] # nodehitch\n  config_path = \"/etc/containerd/certs.d\" # nodehitch\n",
	} {
		for _, content := range []string{"", "\n"} {
			if diff := cmp.Diff([]string{wanted}, candidates(t, content, version, containerdconf.Directory)); diff != "" {
				t.Fatalf("%s (-wanted +got):\n%s", version, diff)
			}
		}
	}
}

// TestList: an owner's list becomes its first directory, and the comment keeps the rest.
func TestList(t *testing.T) {
	const before = "version = 3\nplugins.\"io.containerd.cri.v1.images\".registry.config_path = \"/etc/mine:/etc/docker/certs.d\""
	const wanted = "version = 3\nplugins.\"io.containerd.cri.v1.images\".registry.config_path = \"/etc/mine\" # nodehitch: was \"/etc/mine:/etc/docker/certs.d\""
	if found := candidates(t, before, v22, "/etc/mine"); found[0] != wanted {
		t.Errorf("got %q", found)
	}
}

// TestInlineValue: there is no place for a comment in an inline table.
func TestInlineValue(t *testing.T) {
	const before = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry = {headers = {}, config_path = ''}\n"
	wanted := strings.Replace(before, "''", "\"/etc/containerd/certs.d\"", 1)
	if found := candidates(t, before, v16, containerdconf.Directory); found[0] != wanted {
		t.Errorf("got %q", found)
	}
}

func candidates(t *testing.T, content string, v containerdconf.Version, directory string) []string {
	t.Helper()
	found, err := containerdconf.Candidates([]byte(content), v, directory)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range found {
		texts = append(texts, string(f))
	}
	return texts
}
