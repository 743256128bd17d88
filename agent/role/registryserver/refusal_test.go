package registryserver_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

var dryRun = converge.Options{DryRun: true}

func TestForeignContainerIsNotTouched(t *testing.T) {
	for _, taken := range []string{name, name + "_next"} {
		t.Run(taken, func(t *testing.T) {
			r := docker(t)
			hosttest.Foreign(taken)(r.m.Containers)
			report := r.expect("False NameTaken", taken, "foreign-1", "rename")
			if report.FailedCondition != api.ConditionRegistryRunning {
				t.Error("a person has to act, and it does not count as a failure")
			}
			r.done()
			r.converge()
			if done := r.done(); len(done) != 0 || r.m.Containers.Containers[taken].PID == 0 {
				t.Errorf("did %q", done)
			}
			delete(r.m.Containers.Containers, taken)
			r.expect(running)
			r.runs(imageID, 5000)
		})
	}
}

func TestPortThatIsTaken(t *testing.T) {
	nginx := []host.Listener{{PID: 812, Program: "nginx"}}
	t.Run("by a process", func(t *testing.T) {
		r := docker(t)
		r.m.Taken[5000] = nginx
		report := r.expect("False PortInUse", "5000", "nginx (process 812)", "port_no")
		if report.FailedCondition != "" || r.container() != nil {
			t.Errorf("failed %q, container %+v; want to wait, and no container", report.FailedCondition, r.container())
		}
		delete(r.m.Taken, 5000)
		r.expect(running)
	})
	t.Run("by another container", func(t *testing.T) {
		r := docker(t)
		hosttest.Foreign("web", 5000)(r.m.Containers)
		r.expect("False PortInUse", "the container web,")
		if r.m.Containers.Containers["web"].PID == 0 {
			t.Error("the other container was stopped")
		}
	})
	t.Run("the new one", func(t *testing.T) {
		r := docker(t)
		r.expect(running)
		r.doc.Registry.Port = 5001
		r.m.Taken[5001] = nginx
		r.expect("False PortInUse", "5001")
		if c := r.container(); c.Status != "running" || c.Ports[0] != 5000 {
			t.Errorf("the registry that ran is %+v; want it to go on until the other can", c)
		}
		delete(r.m.Taken, 5001)
		r.expect(running)
		r.runs(imageID, 5001)
	})
	t.Run("in the last moment", func(t *testing.T) {
		r := docker(t)
		r.m.Before = func(change string) {
			if change == "docker start private_registry" {
				r.m.Taken[5000] = nginx
			}
		}
		r.expect("False PortInUse")
		r.m.Before = nil
		delete(r.m.Taken, 5000)
		r.expect(running)
		r.runs(imageID, 5000)
	})
}

func TestImageFileWithoutARegistry(t *testing.T) {
	r := docker(t)
	r.give(noRegistry)
	r.imageFile(noRegistry)
	report := r.expect("False ImageNotFound", "nginx:1", "example.com/registry/x:1", "docker save registry:latest")
	if report.FailedCondition == "" {
		t.Error("no retry can help, and it does not count as a failure")
	}
	if entries, err := os.ReadDir(r.files.Directory); err != nil || len(entries) != 1 { // that of the other document
		t.Errorf("%v, %v", entries, err)
	}
	r.done()
	r.expect("False ImageNotFound", "nginx:1")
	if done := r.done(); len(done) != 0 {
		t.Errorf("the file was loaded again: %q", done)
	}
	r.imageFile(archive)
	r.expect(running)
	r.runs(imageID, 5000)
}

func TestImageFileThatTheEngineRefuses(t *testing.T) {
	for name, c := range map[string]struct{ words, want string }{
		"of a kind that it does not know": {"open /var/lib/docker/tmp/docker-import-1/repositories: no such file or directory", "False ImageNotFound"},
		"a full disk":                     {"write /layer.tar: no space left on device", "False NoSpace"},
	} {
		t.Run(name, func(t *testing.T) {
			r := docker(t)
			r.m.Fail["docker load"] = errors.New(c.words)
			r.expect(c.want, c.words)
			if !r.files.Has(refOf(archive)) {
				t.Error("the file is to be fetched again")
			}
			delete(r.m.Fail, "docker load")
			r.expect(running)
		})
	}
}

func TestImageFileThatCannotBeFetched(t *testing.T) {
	r := docker(t)
	if err := r.files.Remove(refOf(archive)); err != nil {
		t.Fatal(err)
	}
	r.expect("False FileUnavailable", "no controller has been reached", r.files.Path(refOf(archive)))
	r.give(archive)
	r.expect(running)
	r.m.Containers.Images = map[string]string{} // removed by hand
	delete(r.m.Containers.Containers, name)
	r.expect("False FileUnavailable")
	r.give(archive)
	r.expect(running)
	r.runs(imageID, 5000)
}

func TestImageIsPulled(t *testing.T) {
	for name, c := range map[string]struct {
		part  func(*hosttest.Machine)
		proxy string
		pulls bool
		files bool
	}{
		"without a proxy":            {func(*hosttest.Machine) {}, "", true, false},
		"it is there already":        {func(m *hosttest.Machine) { m.Containers.Images["registry:latest"] = imageID }, "http://u:pässwort@proxy:3128", false, false},
		"by a proxy":                 {func(*hosttest.Machine) {}, `http://u:p"$\@proxy:3128`, true, true},
		"not by systemd, so by none": {func(m *hosttest.Machine) { delete(m.Units, "docker.service") }, "http://proxy:3128", true, false},
		"others run, so by no proxy": {func(m *hosttest.Machine) { hosttest.Foreign("web")(m.Containers) }, "http://proxy:3128", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := docker(t, c.part)
			r.doc.Registry.Image = api.RegistryImage{Reference: "registry:latest"}
			if c.proxy != "" {
				r.doc.Proxy = &api.ProxySection{HTTP: c.proxy, HTTPS: c.proxy, NoProxy: "10.0.0.0/8"}
			}
			r.expect(running)
			r.runs(imageID, 5000)
			if got := slices.Contains(r.m.Trace, "docker pull registry:latest"); got != c.pulls {
				t.Errorf("pulled: %v", got)
			}
			env, there := r.m.Files["/etc/nodehitch/docker-proxy.env"]
			if there != c.files || slices.Contains(r.m.Trace, "restart docker.service") != c.files {
				t.Errorf("file %v; trace %q", there, r.m.Trace)
			}
			if c.files {
				if env.Mode != 0o600 || !strings.Contains(env.Content, `HTTP_PROXY="http://u:p\"\$\\@proxy:3128"`) || !strings.Contains(env.Content, `NO_PROXY="10.0.0.0/8"`) {
					t.Errorf("got %v %s", env.Mode, env.Content)
				}
				r.done()
				r.doc.Proxy.HTTP = "http://u:another@proxy:3128"
				r.expect(running)
				if env := r.m.Files["/etc/nodehitch/docker-proxy.env"]; !strings.Contains(env.Content, "another") || slices.Contains(r.done(), "restart docker.service") {
					t.Errorf("another password: got %s; want the file to have it, and no restart for that", env.Content)
				}
				r.idle()
				r.doc.Proxy = nil
				r.expect(running)
				if _, there := r.m.Files["/etc/nodehitch/docker-proxy.env"]; there {
					t.Error("the proxy is gone from the document, and stays")
				}
				r.idle()
			}
			if c := r.m.Containers.Containers["web"]; c != nil && c.PID == 0 {
				t.Error("another container was stopped")
			}
		})
	}
}

func TestPullThatFails(t *testing.T) {
	r := docker(t)
	hosttest.Foreign("web")(r.m.Containers)
	r.doc.Registry.Image = api.RegistryImage{Reference: "registry:latest"}
	r.doc.Proxy = &api.ProxySection{HTTPS: "http://user1:password1@host1:port1"}
	r.m.Fail["docker pull"] = errors.New(`invalid proxy address "http://user1:password1@host1:port1"`)
	report := r.expect("False ImageNotFound", "invalid proxy address", "web", "image_path")
	if m := report.Condition(api.ConditionRegistryRunning).Message; strings.Contains(m, "password1") {
		t.Errorf("the message has the password: %s", m)
	}
	if report.FailedCondition != "" {
		t.Error("the network may come back, and it counts as a failure")
	}
	delete(r.m.Fail, "docker pull")
	r.expect(running)
}

func TestDataDirectoryThatIsNone(t *testing.T) {
	r := docker(t, hosttest.Directory(directory, hosttest.Not("a file")))
	report := r.expect("False DirectoryUnusable", directory, "a file")
	if report.FailedCondition == "" {
		t.Error("it does not count as a failure")
	}
}

func TestDataDirectoryThatLeadsIntoTheSystem(t *testing.T) {
	for _, real := range []string{"/etc", "/var/lib/docker/volumes", "/home/ubuntu/.ssh", "/"} {
		r := docker(t, hosttest.Directory(directory, hosttest.LeadingTo(real)))
		r.expect("False DirectoryUnusable", directory+" leads to "+real)
		if made := r.done(); len(made) != 0 {
			t.Errorf("%s: done: %q", real, made)
		}
	}
	r := docker(t, hosttest.Directory(directory, hosttest.LeadingTo("/mnt/big disk/registry")))
	r.expect(running)
}

func TestDataDirectoryOfOthersStaysAsItIs(t *testing.T) {
	r := docker(t, hosttest.Directory(directory, hosttest.Containing("docker")))
	r.expect(running)
	if d := r.m.Directories[directory]; d.Mode != 0o755 || d.Entry != "docker" {
		t.Errorf("it is %+v now", d)
	}
}

func TestContainerThatEndsAgainAndAgain(t *testing.T) {
	r := docker(t)
	r.expect(running)
	c := r.container()
	c.Status, c.PID, c.ExitCode = "restarting", 0, 1
	r.done()
	r.expect("False NotAnswering", "restarting", "exit code 1", "docker logs")
	if done := r.done(); len(done) != 0 {
		t.Errorf("did %q; the engine restarts it", done)
	}
}

func TestInventoryThatIsDamaged(t *testing.T) {
	r := docker(t)
	r.expect(running)
	r.m.Files[state+"/inventory.json"] = hosttest.FileState{Content: "{", Mode: 0o600}
	r.expect("Unknown StateDamaged", "inventory.json")
	if r.container().PID == 0 {
		t.Error("the registry was stopped")
	}
}
