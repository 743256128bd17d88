package registryserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
)

// What a power cut in the start of a container leaves: the engine has its port for no container.
func TestPortThatTheEngineUsesForNoContainer(t *testing.T) {
	const restart = "restart docker.service"
	anew := []string{inventory, "docker create private_registry", "docker sync", inventory, "docker start private_registry"}
	ended := func(status string) func(*rig) {
		return func(r *rig) { c := r.container(); c.Status, c.PID = status, 0 }
	}
	for name, c := range map[string]struct {
		before func(*rig)
		want   []string
	}{
		"the container was never started": {ended("created"), []string{restart, "docker start private_registry"}},
		"it has run before":               {ended("exited"), []string{restart}}, // by which it starts again
		"it is gone":                      {func(r *rig) { delete(r.m.Containers.Containers, name) }, slices.Concat([]string{restart}, anew)},
		"a container of others does not run": {func(r *rig) {
			ended("created")(r)
			hosttest.Foreign("web", 5000)(r.m.Containers)
			web := r.m.Containers.Containers["web"]
			web.Status, web.PID = "exited", 0
		}, []string{restart, "docker start private_registry"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := docker(t)
			r.expect(running)
			c.before(r)
			r.m.Containers.Taken = 5000
			r.done()
			r.expect(running)
			if diff := cmp.Diff(c.want, r.done()); diff != "" {
				t.Error(diff)
			}
			r.runs(imageID, 5000)
		})
	}
	t.Run("while the registry runs on another one", func(t *testing.T) {
		r := docker(t)
		r.expect(running)
		r.m.Containers.Taken, r.doc.Registry.Port = 5001, 5001
		r.expect(running)
		r.runs(imageID, 5001)
	})
	t.Run("while it runs another container", func(t *testing.T) {
		for _, status := range []string{"running", "paused", "restarting"} {
			r := docker(t)
			hosttest.Foreign("web", 80)(r.m.Containers)
			web := r.m.Containers.Containers["web"]
			if web.Status = status; status == "restarting" {
				web.PID = 0
			}
			r.m.Containers.Taken = 5000
			r.expect("False PortInUse", "port 5000", "docker.service", "web", "systemctl restart docker", "port_no")
			if slices.Contains(r.done(), restart) {
				t.Fatal("the engine was restarted under a container that is " + status)
			}
			delete(r.m.Containers.Containers, "web")
			r.expect(running)
			r.runs(imageID, 5000)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		r := docker(t)
		r.m.Containers.Taken = 5000
		r.m.Told = func(string, string) { r.m.Containers.Taken = 5000 }
		r.expect("False PortInUse", "also after a restart")
		if trace := r.done(); strings.Count(strings.Join(trace, "\n"), restart) != 1 {
			t.Errorf("did %q, want one restart", trace)
		}
		r.m.Told = nil
		r.expect(running)
	})
}

// Only the engine of docker.service is restarted.
func TestPortThatAnotherEngineUses(t *testing.T) {
	r := docker(t)
	r.m.Taken[5000] = []host.Listener{{PID: 812, Program: "docker-proxy"}}
	r.expect("False PortInUse", "docker-proxy (process 812)")
	if slices.Contains(r.done(), "restart docker.service") {
		t.Error("docker.service was restarted")
	}
	r.m.Containers.Taken = 5000 // and ours does too
	r.expect("False PortInUse", "docker-proxy (process 812)")
	delete(r.m.Taken, 5000)
	r.expect(running)
}
