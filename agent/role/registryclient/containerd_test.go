package registryclient_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
)

const (
	certsD   = "/etc/containerd/certs.d/"
	criPath1 = "[plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"/srv/certs\"\n"
)

func TestContainerdIsRestartedOnce(t *testing.T) {
	for name, c := range map[string]struct{ version, before, table string }{
		"no file, 1.6":  {"", "", "io.containerd.grpc.v1.cri"},
		"schema 2, 1.7": {"1.7", "version = 2\nroot = \"/srv/containerd\" # ours\n", "io.containerd.grpc.v1.cri"},
		"schema 3, 2.0": {"2.0", "version = 3\n", "io.containerd.cri.v1.images"},
		"schema 1, 1.6": {"", "[plugins.cri]\n  sandbox_image = \"pause:3.6\"\n", "cri"},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, containerd(t, c.version))
			if c.before != "" {
				file(configTOML, c.before)(r.m)
			}
			r.connect(open(plain), open(plain2)).expect(connected)
			got := r.file(configTOML)
			if !strings.Contains(got, c.table) || !strings.Contains(got, `config_path = "/etc/containerd/certs.d"`) || !strings.Contains(got, c.before) {
				t.Errorf("config.toml is now %s", got)
			}
			for _, server := range []string{plain, plain2} {
				if toml := r.file(certsD + server + "/hosts.toml"); !strings.Contains(toml, `"http://`+server+`"`) {
					t.Errorf("hosts.toml of %s: %q", server, toml)
				}
			}
			if r.did("restart containerd.service") != 1 {
				t.Errorf("trace: %q", r.m.Trace)
			}
			r.idle()
			// Another registry, another password: no restart.
			r.connect(open(plain2), login(locked, "user01", "right")).expect(connected)
			if r.did("restart containerd.service") != 1 || r.file(certsD+plain+"/hosts.toml") != "" || r.file(certsD+locked+"/hosts.toml") == "" {
				t.Errorf("%+v, trace %q", r.snapshot(), r.m.Trace)
			}
			r.idle()
			r.connect().expect("True Removed")
			if r.did("restart containerd.service") != 1 || r.file(configTOML) != got || r.did("remove "+certsD) != 3 {
				t.Errorf("trace: %q", r.m.Trace)
			}
			r.idle()
		})
	}
}

func TestOwnersConfigPathIsUsed(t *testing.T) {
	r := machine(t, containerd(t, ""), file(configTOML, "version = 2\n"+criPath1)).connect(open(plain))
	r.expect(connected)
	if r.file("/srv/certs/"+plain+"/hosts.toml") == "" || r.did("restart")+r.did("write "+configTOML) != 0 {
		t.Errorf("%+v, trace %q", r.snapshot(), r.m.Trace)
	}
	r.idle()
}

func TestConfigPathInADropIn(t *testing.T) {
	r := machine(t, containerd(t, "1.7"), file(configTOML, "version = 2\nimports = [\""+imported+"*.toml\"]\n"),
		file("/etc/containerd/conf.d/10-registry.toml", "version = 2\n"+criPath1)).connect(open(plain))
	r.expect(connected)
	if r.file("/srv/certs/"+plain+"/hosts.toml") == "" || r.did("restart") != 0 {
		t.Errorf("%+v, trace %q", r.snapshot(), r.m.Trace)
	}
}

// Up to 1.7, a table of the plugin in a drop-in replaces the one in config.toml.
func TestDropInThatRemovesConfigPath(t *testing.T) {
	const dropIn = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_selinux = true\n"
	for name, main := range map[string]string{"not set": "", "set": criPath1} {
		main = "version = 2\nimports = [\"" + imported + "*.toml\"]\n" + main
		t.Run(name, func(t *testing.T) {
			r := machine(t, containerd(t, "1.7"), file(configTOML, main), file("/etc/containerd/conf.d/99-other.toml", dropIn)).connect(open(plain))
			r.expect("False EngineConfigInvalid", configTOML, "imports", "config_path")
			if r.file(configTOML) != main || r.did("restart") != 0 {
				t.Errorf("%+v, trace %q", r.snapshot(), r.m.Trace)
			}
		})
	}
	r := machine(t, containerd(t, "2.0"), file(configTOML, "version = 2\nimports = [\""+imported+"*.toml\"]\n"),
		file("/etc/containerd/conf.d/99-other.toml", dropIn)).connect(open(plain))
	r.expect(connected)
	r.idle()
}

// TestListOfDirectories: containerd 2.1 and later read a list as the name of one directory.
func TestListOfDirectories(t *testing.T) {
	r := machine(t, containerd(t, "2.4"), file(configTOML, "version = 3\n[plugins.\"io.containerd.cri.v1.images\".registry]\nconfig_path = '/srv/certs:/etc/docker/certs.d'\n")).connect(open(plain))
	r.expect(connected)
	if r.file("/srv/certs/"+plain+"/hosts.toml") == "" || r.did("restart containerd.service") != 1 || !strings.Contains(r.file(configTOML), "config_path = \"/srv/certs\" # nodehitch: was '/srv/certs:/etc/docker/certs.d'\n") {
		t.Errorf("%+v, trace %q", r.snapshot(), r.m.Trace)
	}
	r.idle()
}

func TestContainerdThatIsNotChanged(t *testing.T) {
	for name, c := range map[string]struct {
		config, path, condition string
		words                   []string
	}{
		"mirrors of the old form": {"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\n  endpoint = [\"https://mirror\"]\n",
			configTOML, "False LegacyRegistryConfig", []string{configTOML, "mirrors", certsD}},
		"no TOML":      {"version = \n", configTOML, "False EngineConfigInvalid", []string{configTOML, "refuses"}},
		"another file": {"version = \n", "/srv/config.toml", "False EngineConfigInvalid", []string{"/srv/config.toml"}},
		"no CRI":       {"disabled_plugins = [\"cri\"]\n", configTOML, "False EngineNotRunning", []string{"CRI plugin"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, containerd(t, ""), file(c.path, c.config)).connect(open(plain))
			if c.path != configTOML {
				r.m.Units["containerd.service"].Argv = []string{"/usr/bin/containerd", "--config", c.path}
			}
			r.expect(c.condition, c.words...)
			if r.file(c.path) != c.config || r.did("restart") != 0 || len(r.m.Files) != 1 {
				t.Errorf("%+v, trace %q", r.m.Files, r.m.Trace)
			}
		})
	}
}

// Docker's own package brings a containerd whose CRI plugin is off.
func TestContainerdOfDockerAlone(t *testing.T) {
	const config = "disabled_plugins = [\"cri\"]\n"
	r := machine(t, docker, containerd(t, "1.7"), file(configTOML, config)).connect(open(plain))
	r.expect(connected)
	if r.file(configTOML) != config || r.did("restart") != 0 {
		t.Errorf("trace %q", r.m.Trace)
	}
}

func TestBothEngines(t *testing.T) {
	r := machine(t, docker, containerd(t, "")).connect(open(plain))
	r.expect(connected)
	if r.did("reload docker.service") != 1 || r.did("restart containerd.service") != 1 || r.file(certsD+plain+"/hosts.toml") == "" {
		t.Errorf("trace %q", r.m.Trace)
	}
	r.idle()
}

func TestOwnersHostsTOMLStays(t *testing.T) {
	const own = "server = \"http://elsewhere\"\n"
	path := certsD + plain + "/hosts.toml"
	r := machine(t, containerd(t, ""), file(path, own)).connect(open(plain))
	r.expect("False EngineConfigInvalid", path)
	r.connect().expect("True Removed")
	if r.file(path) != own {
		t.Errorf("now %q", r.file(path))
	}
}

func TestDirectoryThatHidesOurs(t *testing.T) {
	path := certsD + "10.0.0.5_5000_/hosts.toml"
	r := machine(t, containerd(t, ""), file(path, "server = \"http://elsewhere\"\n")).connect(open("10.0.0.5:5000"))
	r.expect("False EngineConfigInvalid", certsD+"10.0.0.5_5000_ exists", "instead of")
}

func TestRestartThatFails(t *testing.T) {
	r := machine(t, containerd(t, "")).connect(open(plain))
	r.m.Fail["restart"] = errors.New("timeout")
	r.expect("False EngineNotRunning", "restart of containerd.service")
	r.restart() // of the agent, which forgets nothing by that
	delete(r.m.Fail, "restart")
	r.expect(connected)
	if r.did("restart containerd.service") != 2 { // one of them failed
		t.Errorf("trace %q", r.m.Trace)
	}
	r.idle()
}

func TestContainerdThatDoesNotRun(t *testing.T) {
	r := machine(t, containerd(t, "")).connect(open(plain))
	r.m.Units["containerd.service"].Active = false
	r.expect("False EngineNotRunning", "containerd.service is inactive")
	if r.file(certsD+plain+"/hosts.toml") == "" {
		t.Error("hosts.toml is not there for when it runs")
	}
	r.idle()
}

// What containerd's file says may be unknown for a while; what was written stays.
func TestUnreadableConfigKeepsWhatIsThere(t *testing.T) {
	r := machine(t, containerd(t, "")).connect(open(plain), open(plain2))
	r.expect(connected)
	good := r.m.Files[configTOML]
	r.m.Files[configTOML] = hosttest.FileState{Content: "[", Mode: 0o644}
	r.connect(open(plain)).expect("False EngineConfigInvalid")
	if r.file(certsD+plain+"/hosts.toml") == "" || r.file(certsD+plain2+"/hosts.toml") != "" {
		t.Errorf("%+v", r.snapshot())
	}
	r.m.Files[configTOML] = good
	r.expect(connected)
}
