package containerdconf_test

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
)

// TestRandom edits files that are put together of pieces in any order. Each candidate
// differs in nothing else: Candidates itself verifies that.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom([]struct{ schema, plugin string }{
			{"", "cri"},
			{"version = 2\n", "\"io.containerd.grpc.v1.cri\""},
			{"version = 2\n", "'io.containerd.grpc.v1.cri'"},
			{"version = 3\n", "\"io.containerd.cri.v1.images\""},
			{"", "'io.containerd.cri.v1.images'"},
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
		if toml.Unmarshal([]byte(content), &map[string]any{}) != nil {
			t.Skip("a table twice, or so")
		}
		found, err := containerdconf.Candidates([]byte(content), v16, containerdconf.Directory)
		if err != nil || len(found) == 0 {
			t.Fatalf("%v in\n%s", err, content)
		}
		for _, after := range found {
			checkCandidate(t, after)
		}
	})
}

// checkCandidate wants a file that TOML accepts, in which the path cannot be set again.
func checkCandidate(t interface{ Fatalf(string, ...any) }, after []byte) {
	if err := toml.Unmarshal(after, &map[string]any{}); err != nil || !strings.Contains(string(after), containerdconf.Directory) {
		t.Fatalf("%v in\n%s", err, after)
	}
	again, err := containerdconf.Candidates(after, v16, containerdconf.Directory)
	if err != nil || len(again) == 0 {
		t.Fatalf("set again: %v\n%s", err, after)
	}
}

// FuzzConfig: no content makes the editors panic, and what they return they can read.
func FuzzConfig(f *testing.F) {
	for _, e := range edits {
		f.Add([]byte(e.before), uint8(e.version.Major), uint8(e.version.Minor))
		f.Add([]byte(e.after), uint8(e.version.Major), uint8(e.version.Minor))
	}
	f.Fuzz(func(t *testing.T, content []byte, major, minor uint8) {
		v := containerdconf.Version{Major: int(major), Minor: int(minor)}
		found, err := containerdconf.Candidates(content, v, containerdconf.Directory)
		if err != nil {
			return
		}
		for _, after := range found {
			checkCandidate(t, after)
		}
	})
}
