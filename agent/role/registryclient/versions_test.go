package registryclient_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	realcontainerd "github.com/nodehitch/nodehitch/e2e/containerd"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestConfigPathIsWhatContainerdReads: for every version of config.toml and of a drop-in,
// and every place of the plugin's table, the agent is connected if and only if containerd
// itself says that it reads the directory of the hosts.toml. Otherwise the condition names a
// file, and nothing is changed.
func TestConfigPathIsWhatContainerdReads(t *testing.T) {
	const dropIn = imported + "99-other.toml"
	versions := []string{"", "version = 1\n", "version = 2\n", "version = 3\n"}
	for nth, engine := range append([]string{""}, realcontainerd.Versions...) {
		t.Run(cmp.Or(engine, "installed"), func(t *testing.T) {
			t.Parallel()
			machine(t, containerd(t, engine)) // skips if it is not there
			outcomes, combination := map[string]int{}, nth
			for _, root := range versions {
				for _, other := range append([]string{"absent"}, versions...) {
					for _, table := range []string{"", "root cri", "root " + criURI, "root " + imagesURI, "drop-in cri", "drop-in " + criURI, "drop-in " + imagesURI, "drop-in sets " + criURI, "drop-in sets " + imagesURI} {
						where, plugin, _ := strings.Cut(table, " ")
						if where == "drop-in" && other == "absent" {
							continue
						}
						if combination++; testing.Short() && combination%4 != 0 {
							continue // the next engine takes the next ones
						}
						r := machine(t, containerd(t, engine))
						main, other := root, other
						if other != "absent" {
							main += "imports = [\"" + imported + "*.toml\"]\n"
						}
						switch name, sets := strings.CutPrefix(plugin, "sets "); {
						case where == "root":
							main += fmt.Sprintf("[plugins.%q.registry]\nconfig_path = \"/srv/certs\"\n", name)
						case sets:
							other += fmt.Sprintf("[plugins.%q.registry]\nconfig_path = \"/srv/certs\"\n", name)
						case where == "drop-in":
							other += fmt.Sprintf("[plugins.%q]\n  max_concurrent_downloads = 3\n", name)
						}
						file(configTOML, main)(r.m)
						if other != "absent" {
							file(dropIn, other)(r.m)
						}
						what := fmt.Sprintf("%q with the drop-in %q", main, other)
						outcome := r.readsWhatIsWritten(what)
						outcomes[outcome]++
						// With a drop-in that says version 1, containerd 1.x reads no table of a newer root.
						if alone := other == "absent" || table == "" && other != versions[1]; alone && outcome == "overridden" {
							t.Errorf("%s: not connected, although no other file has the table", what)
						}
					}
				}
			}
			t.Log(outcomes)
			if outcomes["connected"] == 0 {
				t.Error("connected in no case")
			}
		})
	}
}

const (
	criURI    = "io.containerd.grpc.v1.cri"
	imagesURI = "io.containerd.cri.v1.images"
)

// readsWhatIsWritten converges and compares with the engine's own words.
func (r *rig) readsWhatIsWritten(what string) string {
	r.t.Helper()
	before := r.file(configTOML)
	_, refused := r.m.Host().Programs.ContainerdConfig(r.t.Context(), configTOML, nil)
	report := r.connect(open(plain)).converge()
	c := report.Condition(api.ConditionRegistriesConnected)
	if c.Reason != api.ReasonConnected {
		if c.Reason != api.ReasonEngineConfigInvalid || !strings.Contains(c.Message, "/etc/containerd/") || r.file(configTOML) != before || r.did("restart") != 0 {
			r.t.Errorf("%s: %s: %s", what, c.Reason, c.Message)
		}
		if refused != nil {
			return "refused by containerd"
		}
		return "overridden"
	}
	dump, err := r.m.Host().Programs.ContainerdConfig(r.t.Context(), configTOML, nil)
	var config struct {
		Plugins map[string]struct {
			Registry struct {
				ConfigPath string `toml:"config_path"`
			}
		}
	}
	if err == nil {
		err = toml.Unmarshal(dump, &config)
	}
	path := config.Plugins[criURI].Registry.ConfigPath
	if images, ok := config.Plugins[imagesURI]; ok {
		path = images.Registry.ConfigPath
	}
	if err != nil || path == "" || r.file(path+"/"+plain+"/hosts.toml") == "" {
		r.t.Errorf("%s: connected, and containerd reads %q (%v); written: %v", what, path, err, r.snapshot())
	}
	if wrote := r.file(configTOML) != before; wrote != (r.did("restart") == 1) {
		r.t.Errorf("%s: written %v, trace %q", what, wrote, r.m.Trace)
	}
	return "connected"
}
