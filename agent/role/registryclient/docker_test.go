package registryclient_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestNoEngine(t *testing.T) {
	r := machine(t).connect(open(plain), login(locked, "user01", "right"))
	r.expect("False EngineNotRunning", "no container engine")
	if !strings.Contains(r.file(kubelet), locked) || !strings.Contains(r.file(dockerJSON), locked) {
		t.Error("the logins were not written; they serve the engine when it comes")
	}
	if r.file(daemonJSON) != "" {
		t.Error("daemon.json was written without knowing the daemon's flags")
	}
	r.idle()
	docker(r.m)
	r.expect(connected, "2 registries")
	r.idle()
}

// An engine that reads other files is named, also beside one that is connected: Kubernetes
// pulls with k3s' own containerd on a machine that has Docker too.
func TestEngineThatReadsOtherFiles(t *testing.T) {
	for name, c := range map[string]struct{ unit, socket, words string }{
		"k3s":  {"k3s.service", "/run/k3s/containerd/containerd.sock", "/etc/rancher/k3s/registries.yaml"},
		"snap": {"snap.docker.dockerd.service", "/run/snap.docker/containerd/containerd.sock", "/var/snap/docker/current/config/daemon.json"},
	} {
		t.Run(name, func(t *testing.T) {
			other := []hosttest.Part{hosttest.Runs(c.unit, c.unit), file(c.socket, "")}
			r := machine(t, other...).connect(open(plain))
			if report := r.expect("False EngineNotRunning", c.socket, c.words, "docker.service"); strings.Contains(report.Condition(api.ConditionRegistriesConnected).Message, "install") {
				t.Errorf("the message wants a second engine: %+v", report)
			}
			r.idle()
			r = machine(t, append(other, docker, containerd(t, ""))...).connect(open(plain))
			r.expect("False EngineNotRunning", c.socket, c.words)
			if !strings.Contains(r.file(daemonJSON), plain) {
				t.Error("Docker is not configured")
			}
			r.idle()
			delete(r.m.Files, c.socket) // k3s with --docker or with the machine's containerd
			r.expect(connected)
			r.m.Files[c.socket] = hosttest.FileState{}
			r.connect().expect("True Removed")
		})
	}
}

// Every master and worker has a list of registries, most of them an empty one.
func TestWithoutRegistriesNoEngineIsInspected(t *testing.T) {
	r := machine(t, docker, containerd(t, "")).connect()
	r.m.Fail["systemd"] = errors.New("no such file or directory")
	r.expect("True Removed", "no registries are desired")
	r.idle()
}

func TestEngineThatDoesNotRun(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.m.Units["docker.service"].Active, r.m.Containers.Running = false, false
	r.expect("False EngineNotRunning", "docker.service is inactive", "journalctl -u docker.service")
	r.idle()
	r.m.Units["docker.service"].Active = true // and its socket is silent
	r.expect("False EngineNotRunning", "does not answer")
	r.m.Containers.Running = true
	r.expect(connected)
	r.idle()
}

func TestInstalledButDisabledEngineIsNone(t *testing.T) {
	r := machine(t, docker, containerd(t, ""), file(configTOML, "version = 2\n")).connect(open(plain))
	r.m.Units["containerd.service"] = &hosttest.UnitState{}
	r.expect(connected)
	if r.did("restart") != 0 || r.file(configTOML) != "version = 2\n" {
		t.Errorf("trace: %q", r.m.Trace)
	}
}

func TestDockerIsReloadedOnceAndNeverRestarted(t *testing.T) {
	r := machine(t, docker).connect(open(plain), open(plain2))
	r.expect(connected)
	want := map[string]string{daemonJSON: "map[insecure-registries:[" + plain + " " + plain2 + "]]"}
	if diff := cmp.Diff(want, r.snapshot()); diff != "" {
		t.Error(diff)
	}
	if got := r.m.Containers.Insecure; !slices.Equal(got, []string{plain, plain2}) {
		t.Errorf("the engine has %q", got)
	}
	if r.did("reload docker.service") != 1 || r.did("restart")+r.did("stop") != 0 {
		t.Errorf("trace: %q", r.m.Trace)
	}
	r.idle()
}

func TestInsecureRegistries(t *testing.T) {
	const own = `{
  "log-level": "warn",
  "insecure-registries": ["mine.example.com:5000"]
}
`
	for name, c := range map[string]struct {
		before string
		// after has these parts; removed is what is left when the registries go.
		after   []string
		removed string
		reloads int
	}{
		"no file":                       {"", []string{plain}, "", 1},
		"other settings":                {own, []string{`"log-level": "warn"`, "mine.example.com:5000", plain}, own, 1},
		"an empty file":                 {"{}\n", []string{plain}, "{}\n", 1},
		"the owner's entry":             {`{"insecure-registries": ["` + plain + `"]}`, []string{plain}, `{"insecure-registries": ["` + plain + `"]}`, 0},
		"the owner's network covers it": {`{"insecure-registries": ["10.0.0.0/8"]}`, []string{"10.0.0.0/8"}, `{"insecure-registries": ["10.0.0.0/8"]}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, docker)
			if c.before != "" {
				hosttest.WithFile(daemonJSON, c.before, 0o640)(r.m)
			}
			r.m.Files[daemonJSON+"x"] = hosttest.FileState{} // not the agent's
			r.m.Containers.Insecure = map[bool][]string{true: {"10.0.0.0/8"}, false: nil}[strings.Contains(c.before, "/8")]
			if strings.Contains(c.before, plain) {
				r.m.Containers.Insecure = []string{plain}
			}
			r.connect(open(plain)).expect(connected)
			for _, part := range c.after {
				if !strings.Contains(r.file(daemonJSON), part) {
					t.Errorf("no %s in %s", part, r.file(daemonJSON))
				}
			}
			if n := r.did("reload docker.service"); n != c.reloads {
				t.Errorf("%d reloads, want %d", n, c.reloads)
			}
			r.idle()
			r.connect().expect("True Removed")
			if got := r.file(daemonJSON); got != c.removed {
				t.Errorf("left: %q, want %q", got, c.removed)
			}
			if mode := r.m.Files[daemonJSON].Mode; c.removed != "" && mode != 0o640 {
				t.Errorf("the file's mode is %04o, want the owner's, 0640", mode)
			}
			if owner := strings.Contains(c.before, plain); slices.Contains(r.m.Containers.Insecure, plain) != owner {
				t.Errorf("the engine still has %q", r.m.Containers.Insecure)
			}
			r.idle()
		})
	}
}

func TestOneOfTwoRegistriesLeaves(t *testing.T) {
	r := machine(t, docker).connect(open(plain), open(plain2))
	r.expect(connected)
	r.connect(open(plain2)).expect(connected)
	if got := r.m.Containers.Insecure; !slices.Equal(got, []string{plain2}) {
		t.Errorf("the engine has %q, the file is %s", got, r.file(daemonJSON))
	}
	r.idle()
}

// After a crash, or if someone restores the file, the engine may not have read it yet.
func TestEngineThatHasNotReadItsFile(t *testing.T) {
	r := machine(t, docker, file(daemonJSON, `{"insecure-registries": ["`+plain+`"]}`)).connect(open(plain))
	r.expect(connected)
	if r.did("reload docker.service") != 1 || r.did("write "+daemonJSON) != 0 {
		t.Errorf("trace: %q", r.m.Trace)
	}
}

func TestDaemonJSONThatIsNotTouched(t *testing.T) {
	const flags = "--insecure-registry"
	for name, c := range map[string]struct {
		prepare func(*rig)
		words   []string
	}{
		"the daemon has the flag": {func(r *rig) {
			r.m.Units["docker.service"].Argv = []string{"dockerd", flags, "10.1.0.0/16"}
		}, []string{flags, "10.1.0.0/16", "insecure-registries", flags + " " + plain}},
		"the same, with =": {func(r *rig) {
			r.m.Units["docker.service"].Argv = []string{"dockerd", flags + "=10.1.0.0/16"}
		}, []string{"10.1.0.0/16"}},
		"no JSON": {func(r *rig) { file(daemonJSON, "{\n  log-level: warn\n}\n")(r.m) }, []string{daemonJSON, "is not changed"}},
		"dockerd does not take it": {func(r *rig) {
			r.m.InvalidDaemonJSON = &host.CommandError{Code: 1, Output: "unknown directive: foo", Err: errors.New("exit status 1")}
		},
			[]string{daemonJSON, "unknown directive: foo"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, docker).connect(open(plain))
			c.prepare(r)
			before := r.file(daemonJSON)
			r.expect("False EngineConfigInvalid", c.words...)
			if r.file(daemonJSON) != before || r.did("reload docker.service") != 0 {
				t.Errorf("%s, trace %q", r.file(daemonJSON), r.m.Trace)
			}
		})
	}
}

// An engine's program that took too long and was killed has refused no file.
func TestAnEnginesProgramThatTakesTooLong(t *testing.T) {
	killed := &host.CommandError{Argv: []string{"engine"}, Code: -1, Err: errors.New("it took longer than 30s")}
	containerdAt := func(call int) func(*rig) { // 1: the file as it is, 2: as it is to be
		return func(r *rig) {
			dump, calls := r.m.ContainerdConfig, 0
			r.m.ContainerdConfig = func(path string, files map[string]hosttest.FileState) ([]byte, error) {
				if calls++; calls == call {
					return nil, killed
				}
				return dump(path, files)
			}
		}
	}
	for name, c := range map[string]struct {
		engine hosttest.Part
		slow   func(*rig)
	}{
		"dockerd validates":               {docker, func(r *rig) { r.m.InvalidDaemonJSON = killed }},
		"containerd reads its file":       {containerd(t, ""), containerdAt(1)},
		"containerd reads the one to set": {containerd(t, ""), containerdAt(2)},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, c.engine).connect(open(plain))
			c.slow(r)
			r.expect("Unknown InternalError", "it took longer than 30s")
			r.m.InvalidDaemonJSON = nil
			r.expect(connected)
		})
	}
}

func TestFlagThatCoversTheRegistryIsEnough(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.m.Units["docker.service"].Argv = []string{"dockerd", "--insecure-registry=10.0.0.0/8"}
	r.m.Containers.Insecure = []string{"10.0.0.0/8"}
	r.expect(connected)
	if r.file(daemonJSON) != "" {
		t.Error("daemon.json was written beside the flag: Docker would not start any more")
	}
}

func TestAnotherDaemonJSON(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.m.Units["docker.service"].Argv = []string{"dockerd", "--config-file=/srv/docker.json"}
	r.expect("False EngineConfigInvalid", "/srv/docker.json") // hosttest's engine reads the usual one
	if r.file(daemonJSON) != "" || !strings.Contains(r.file("/srv/docker.json"), plain) {
		t.Errorf("%+v", r.snapshot())
	}
}

func TestReloadThatFails(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.m.Fail["reload"] = errors.New("timeout")
	r.expect("False EngineNotRunning", "reload of docker.service", "timeout")
	delete(r.m.Fail, "reload")
	r.expect(connected)
	r.idle()
}

func TestSchemeThatChanges(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.expect(connected)
	secure := open(plain)
	secure.Scheme = api.RegistryHTTPS
	r.connect(secure).expect("False Unreachable") // no server there uses TLS
	if len(r.m.Containers.Insecure) != 0 || r.file(daemonJSON) != "" {
		t.Errorf("it is still insecure: %q, %s", r.m.Containers.Insecure, r.file(daemonJSON))
	}
	r.connect(open(plain)).expect(connected)
	r.idle()
}

func TestTwentyRegistries(t *testing.T) {
	r := machine(t, docker, containerd(t, ""))
	var all []api.RegistryConnection
	for i := range 20 {
		server := fmt.Sprintf("10.0.1.%d:5000", i+1)
		r.world.set(server, "right")
		all = append(all, login(server, "user01", "right"))
	}
	r.connect(all...).expect(connected, "20 registries connected")
	if r.did("reload docker.service") != 1 || r.did("restart containerd.service") != 1 || len(r.m.Containers.Insecure) != 20 {
		t.Errorf("%d reloads, %d restarts, %q", r.did("reload"), r.did("restart"), r.m.Containers.Insecure)
	}
	r.idle()
	r.connect(slices.Delete(all, 3, 17)...).expect(connected, "6 registries connected")
	r.idle()
	r.connect().expect("True Removed")
	if left := r.snapshot(); len(left) != 1 || left[configTOML] == "" {
		t.Errorf("left: %+v", left)
	}
}

// The engine has to be reloaded, or it keeps trusting a registry that is no longer desired.
func TestRegistryThatLeavesWhileTheEngineIsSilent(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.expect(connected)
	r.m.Containers.Running = false
	r.connect().expect("False EngineNotRunning")
	r.m.Containers.Running = true
	r.expect("True Removed")
	if len(r.m.Containers.Insecure) != 0 || r.file(daemonJSON) != "" {
		t.Errorf("the engine has %q, the file %s", r.m.Containers.Insecure, r.file(daemonJSON))
	}
	r.idle()
}
