package containerdconf_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
)

// TestRandom sets and unsets in files that are put together of pieces in any order:
// the file is the same again, containerd finds the directory in between, and what is
// foreign is still there.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom([]struct {
			version containerdconf.Version
			schema  string
			plugin  string
		}{
			{v16, "", "cri"},
			{v16, "version = 2\n", "\"io.containerd.grpc.v1.cri\""},
			{v20, "version = 2\n", "'io.containerd.grpc.v1.cri'"},
			{v20, "version = 3\n", "\"io.containerd.cri.v1.images\""},
			{v22, "", "\"io.containerd.cri.v1.images\""},
			{v22, "version = 3\n", "'io.containerd.cri.v1.images'"},
		}).Draw(t, "version")
		heads := []string{
			"oom_score = 1 # head\n", "root = '/var'\n", "\n", "# why\n", "imports = [ # many\n  'a',\n]\n",
			"plugins." + c.plugin + ".sandbox_image = 'p'\n", "plugins." + c.plugin + ".registry.headers.X = ['y']\n",
			"plugins = {" + c.plugin + " = { registry = {} } }\n",
		}
		tables := []string{
			"[debug]\nlevel = 'info'\n", "[plugins]\n", "  [plugins." + c.plugin + "] # the plugin\n    x = 1\n",
			"[plugins." + c.plugin + ".registry]\n", "[plugins." + c.plugin + ".registry.headers]\n  X = ['y']\n",
			"[plugins." + c.plugin + ".registry]\nconfig_path = ''\n", "[plugins." + c.plugin + "]\nregistry = { }\n",
			"[plugins." + c.plugin + ".cni]\nbin_dir = \"/opt\"\n", "[[list]]\nx = 1\n", "\n# config_path = '/x'\n",
			"[plugins.other.registry]\nconfig_path = '/other'\n", "[plugins." + c.plugin + "]\nregistry.headers.X = ['y']\n",
		}
		content := c.schema +
			strings.Join(rapid.SliceOfN(rapid.SampledFrom(heads), 0, 3).Draw(t, "head"), "") +
			strings.Join(rapid.SliceOfN(rapid.SampledFrom(tables), 0, 4).Draw(t, "tables"), "")
		if rapid.Bool().Draw(t, "CRLF") {
			content = strings.ReplaceAll(content, "\n", "\r\n")
		}
		if rapid.Bool().Draw(t, "unterminated") {
			content = strings.TrimSuffix(content, "\n")
		}
		if strings.TrimSpace(content) == "" {
			t.Skip("a file without settings")
		}
		if _, err := containerdconf.Read([]byte(content), c.version); err != nil {
			t.Skip("a table twice, or so")
		}
		after, err := containerdconf.SetConfigPath([]byte(content), c.version)
		if err != nil {
			t.Fatalf("%v in\n%s", err, content)
		}
		got, err := containerdconf.Read(after, c.version)
		if err != nil || len(got.Directories()) != 1 || got.Directories()[0] != containerdconf.Directory {
			t.Fatalf("%+v, %v in\n%s", got, err, after)
		}
		if again, err := containerdconf.SetConfigPath(after, c.version); err != nil || string(again) != string(after) {
			t.Fatalf("set again: %v\n%s", err, again)
		}
	})
}

// FuzzConfig: no content makes the editors panic, and what they return they can read.
func FuzzConfig(f *testing.F) {
	for _, e := range edits {
		f.Add([]byte(e.before), uint8(e.version.Major), uint8(e.version.Minor))
		f.Add([]byte(e.after), uint8(e.version.Major), uint8(e.version.Minor))
	}
	f.Fuzz(func(t *testing.T, content []byte, major, minor uint8) {
		v := containerdconf.Version{Major: int(major), Minor: int(minor)}
		after, err := containerdconf.SetConfigPath(content, v)
		if err != nil {
			return
		}
		c, err := containerdconf.Read(after, v)
		if err != nil || len(c.Directories()) == 0 {
			t.Fatalf("set: %+v, %v\n%q", c, err, after)
		}
		if again, err := containerdconf.SetConfigPath(after, v); err != nil || string(again) != string(after) {
			t.Fatalf("set again: %v\n%q\n%q", err, after, again)
		}
	})
}
