package registryserver_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestBareMachineBecomesARegistry(t *testing.T) {
	r := machine(t)
	r.doc.Proxy = &api.ProxySection{HTTP: "http://proxy:3128"}
	r.m.Before = func(change string) {
		if change == "enable docker.service" { // the package is there now
			known(r.m.Containers)
		}
	}
	r.expect(running, "port 5000", directory)
	r.runs(imageID, 5000)
	want := []string{
		"install [container engine]", "enable docker.service", "reload systemd", "start docker.service",
		inventory, "docker load", "docker sync", inventory, "make " + directory,
		inventory, "docker create private_registry", "docker sync", inventory, "docker start private_registry",
	}
	if diff := cmp.Diff(want, r.done()); diff != "" {
		t.Error(diff)
	}
	if r.m.Proxy.HTTP != "http://proxy:3128" {
		t.Errorf("the package came by %+v", r.m.Proxy)
	}
	c := r.container()
	spec := host.ContainerSpec{Name: name, Image: "registry:latest", Restart: "always", Labels: c.Labels, Port: 5000, Inside: 5000, Source: directory, Target: "/var/lib/registry"}
	if diff := cmp.Diff(spec, c.Spec); diff != "" {
		t.Error(diff)
	}
	if mode := r.m.Directories[directory].Mode; mode != 0o700 {
		t.Errorf("the data directory has mode %v, want 0700", mode)
	}
	if entries, err := os.ReadDir(r.files.Directory); err != nil || len(entries) != 0 {
		t.Errorf("the image file lies beside the image: %v, %v", entries, err)
	}
}

func TestPlanOfABareMachine(t *testing.T) {
	r := machine(t)
	report := r.engine.Converge(t.Context(), r.doc, dryRun)
	var got []string
	for _, a := range report.Results[2].Planned {
		got = append(got, a.Summary)
	}
	want := []string{
		"install container engine", "enable and start docker.service",
		"fetch the image file " + refOf(archive).Sha256[:12] + " (23 bytes)", "load the image file into the engine",
		"make the data directory " + directory, "run the container private_registry",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.m.Trace) != 0 {
		t.Errorf("a dry run did %q", r.m.Trace)
	}
}

// An existing engine is used, whatever installed it.
func TestAnExistingEngineIsUsed(t *testing.T) {
	for name, part := range map[string]hosttest.Part{
		"running":     func(*hosttest.Machine) {},
		"not started": func(m *hosttest.Machine) { m.Units["docker.service"].Active, m.Containers.Running = false, false },
		"not enabled": func(m *hosttest.Machine) { m.Units["docker.service"].Enabled = false },
		"no unit":     func(m *hosttest.Machine) { delete(m.Units, "docker.service") },
		"no systemd":  func(m *hosttest.Machine) { m.Fail["systemd"] = errors.New("no such bus") },
	} {
		t.Run(name, func(t *testing.T) {
			r := docker(t, part)
			if name == "no systemd" { // of which the other steps say something
				r.m.Fail["systemd"] = errors.New("no such bus")
			}
			r.expect(running)
			r.runs(imageID, 5000)
			if slices.ContainsFunc(r.m.Trace, func(line string) bool { return strings.HasPrefix(line, "install") }) {
				t.Errorf("installed another: %q", r.m.Trace)
			}
			if u := r.m.Units["docker.service"]; u != nil && name != "no systemd" && (!u.Enabled || !u.Active) {
				t.Errorf("docker.service is %+v", u)
			}
		})
	}
}

func TestEngineThatCannotBeInstalled(t *testing.T) {
	for name, c := range map[string]struct {
		part  hosttest.Part
		want  string
		words []string
	}{
		"no package":         {hosttest.Missing(&host.UnavailableError{Package: "moby-engine", Detail: "no match"}), "False PackageUnavailable", []string{"moby-engine", "docker-ce"}},
		"dpkg is locked":     {hosttest.Missing(&host.BusyError{Detail: "unattended-upgr"}), "False PackageManagerBusy", []string{"unattended-upgr"}},
		"does not start":     {func(m *hosttest.Machine) { m.Fail["start"] = errors.New("exit code 1") }, "False EngineNotRunning", []string{"docker.service", "exit code 1"}},
		"active, and silent": {func(m *hosttest.Machine) { hosttest.Engine()(m); m.Containers.Running = false }, "False EngineNotRunning", []string{"journalctl -u docker"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, c.part)
			r.expect(c.want, c.words...)
			r.m.Unavailable = nil
			clear(r.m.Fail)
			if r.m.Containers == nil {
				hosttest.Engine(known)(r.m)
			}
			r.m.Containers.Running = true
			known(r.m.Containers)
			r.expect(running)
		})
	}
}

// What people and accidents do to the container is repaired, without loading the image again.
func TestContainerComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig)
		want   []string
	}{
		"removed": {func(r *rig) { delete(r.m.Containers.Containers, name) }, []string{inventory, "docker create private_registry", "docker sync", inventory, "docker start private_registry"}},
		"stopped": {func(r *rig) { c := r.container(); c.Status, c.PID = "exited", 0 }, []string{"docker start private_registry"}},
		"paused":  {func(r *rig) { r.container().Status = "paused" }, []string{"docker unpause private_registry"}},
		"dead": {func(r *rig) { c := r.container(); c.Status, c.PID = "dead", 0 },
			[]string{"docker remove private_registry", inventory, "docker create private_registry", "docker sync", inventory, "docker start private_registry"}},
		"not restarted any more":                        {func(r *rig) { r.container().Restart = "no" }, []string{"docker update private_registry"}},
		"its data directory was removed and made again": {func(r *rig) { r.container().Mounts[0].Root += "//deleted" }, []string{"docker stop private_registry", "docker start private_registry"}},
		"of another agent's making": {func(r *rig) { r.container().Labels["io.nodehitch.spec"] = "old" },
			[]string{inventory, "docker create private_registry_next", "docker sync", inventory, "docker stop private_registry", "docker remove private_registry", "docker rename private_registry_next", "docker start private_registry"}},
		"a crash left a successor that is not needed": {func(r *rig) {
			c := *r.container()
			c.Name, c.Status, c.PID = name+"_next", "created", 0
			r.m.Containers.Containers[c.Name] = &c
		}, []string{"docker remove private_registry_next"}},
		"the machine was rebooted": {func(r *rig) { r.m.Reboot() }, nil},
		"the inventory was lost":   {func(r *rig) { delete(r.m.Files, state+"/inventory.json") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := docker(t, hosttest.Mounted("/", "ext4", "/dev/vda1"))
			r.expect(running)
			r.done()
			c.change(r)
			r.expect(running)
			if diff := cmp.Diff(c.want, r.done()); diff != "" {
				t.Error(diff)
			}
			r.runs(imageID, 5000)
		})
	}
}

func TestWhatIsAskedForChanges(t *testing.T) {
	anew := []string{inventory, "docker create private_registry_next", "docker sync", inventory, "docker stop private_registry", "docker remove private_registry", "docker rename private_registry_next", "docker start private_registry"}
	for name, c := range map[string]struct {
		change func(*rig)
		image  string
		port   int
		first  []string
	}{
		"the port":      {func(r *rig) { r.doc.Registry.Port = 5001 }, imageID, 5001, nil},
		"the directory": {func(r *rig) { r.doc.Registry.DataDirectory = "/srv/registry" }, imageID, 5000, []string{"make /srv/registry"}},
		"the image": {func(r *rig) { r.give(otherArchive); r.imageFile(otherArchive) }, otherID, 5000,
			[]string{inventory, "docker load", "docker sync", inventory}},
	} {
		t.Run(name, func(t *testing.T) {
			r := docker(t)
			r.expect(running)
			r.done()
			c.change(r)
			r.expect(running)
			if diff := cmp.Diff(append(c.first, anew...), r.done()); diff != "" {
				t.Error(diff)
			}
			r.runs(c.image, c.port)
			if r.m.Directories[directory] == nil {
				t.Error("the data is gone")
			}
		})
	}
}

// Stopped before any change and started again, with or without the machine: the result is the
// same, and at every time there is a way back. A power cut damages what was not on the disk.
func TestCrashAtAnyPoint(t *testing.T) {
	situations := map[string]func(*testing.T) *rig{
		"first time": func(t *testing.T) *rig { return docker(t) },
		"another port": func(t *testing.T) *rig {
			r := docker(t)
			r.expect(running)
			r.doc.Registry.Port = 5001
			return r
		},
		"pulled by a proxy": func(t *testing.T) *rig {
			r := docker(t)
			r.doc.Registry.Image = api.RegistryImage{Reference: "registry:latest"}
			r.doc.Proxy = &api.ProxySection{HTTPS: "http://proxy:3128"}
			return r
		},
	}
	for _, powerCut := range []bool{false, true} {
		for name, prepare := range situations {
			t.Run(fmt.Sprintf("%s, power cut %v", name, powerCut), func(t *testing.T) {
				for at := 1; ; at++ {
					r := prepare(t)
					r.done()
					r.m.CrashAt = at
					r.converge()
					if r.m.CrashAt > 0 {
						break // there are fewer changes
					}
					crashed := r.done()
					if powerCut {
						r.m.CutPower()
					}
					r.give(archive)
					r.restart()
					r.expect(running)
					r.runs(imageID, r.doc.Registry.Port)
					if all := append(crashed, r.done()...); r.doc.Proxy != nil && !slices.Contains(all, "restart docker.service") {
						t.Error("the engine has never read of the proxy")
					}
					if t.Failed() {
						t.Fatalf("stopped after %q", crashed)
					}
				}
			})
		}
	}
}

func TestNoSectionMeansHandsOff(t *testing.T) {
	r := docker(t)
	r.expect(running)
	r.container().Status = "paused"
	r.doc.Registry = nil
	r.done()
	if report := r.converge(); report.Condition(api.ConditionRegistryRunning) != nil || len(r.done()) != 0 {
		t.Errorf("got %+v", report.Conditions)
	}
}

// The action waits for an answer for a while; it does not touch a container that runs.
func TestRegistryThatDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer host.Answer
		words  string
	}{
		"nothing listens": {host.Answer{}, "connection refused"},
		"a web server":    {host.Answer{Status: 200, Body: "<html>hello"}, "no registry"},
		"an error":        {host.Answer{Status: 503}, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := docker(t)
				r.m.Answers[5000] = c.answer
				begun := time.Now()
				r.expect("False NotAnswering", c.words, "docker logs private_registry")
				if waited := time.Since(begun); waited < 20*time.Second || waited > 30*time.Second {
					t.Errorf("a container that was started had %s to answer, want about 20 s", waited)
				}
				r.done()
				r.expect("False NotAnswering", c.words)
				if done := r.done(); len(done) != 0 {
					t.Errorf("the container is let be while it does not answer: %q", done)
				}
				delete(r.m.Answers, 5000)
				r.expect(running)
			})
		})
	}
}
