package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/e2e/engine"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// dockerd is what the agent sees of a real engine.
type dockerd struct {
	host.Engine
	t       *testing.T
	changes *host.Changes
}

func agentOf(t *testing.T, e *engine.Engine) dockerd {
	paths := host.MachinePaths
	paths.EngineSocket = e.Socket
	h := host.LinuxAt(paths, nil)
	return dockerd{h.Engine, t, h.Changes}
}

func (d dockerd) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// load loads an image of this tag and returns its id.
func (d dockerd) load(image registry.Image, tag string) string {
	d.t.Helper()
	var archive bytes.Buffer
	d.must(image.Write(&archive))
	names, err := d.Load(d.t.Context(), &archive)
	d.must(err)
	if !slices.Equal(names, []string{tag}) {
		d.t.Fatalf("loaded %q, want %s", names, tag)
	}
	id, err := d.Image(d.t.Context(), tag)
	d.must(err)
	return id
}

// is wants the container to be in a state.
func (d dockerd) is(name, status string) host.Container {
	d.t.Helper()
	c, err := d.Container(d.t.Context(), name)
	d.must(err)
	if c == nil || c.Status != status || (c.PID != 0) != (status == "running" || status == "paused") {
		d.t.Fatalf("the container is %+v, want %s", c, status)
	}
	return *c
}

// A real engine behaves like the twin in agent/machine/host/hosttest.
func TestLifeOfAContainer(t *testing.T) {
	results.Begin(t, "engine", "life of a container", "a real container engine does what the agent asks of it")
	e := engine.Open(t)
	d, ctx := agentOf(t, e), t.Context()
	if version, err := d.Version(ctx); err != nil || version == "" {
		t.Fatalf("version %q, %v", version, err)
	}
	server, err := registry.Server(0)
	d.must(err)
	id := d.load(server, "registry:latest")
	if found, err := d.Image(ctx, "none:latest"); found != "" || err != nil {
		t.Errorf("an image that is not there: %q, %v", found, err)
	}
	spec := host.ContainerSpec{
		Name: "private_registry", Image: "registry:latest", Restart: "always", Labels: map[string]string{"who": "we"},
		Port: 5000, Inside: 5000, Source: filepath.Join(e.Dir, "data-of-the-registry"), Target: "/var/lib/registry",
	}
	var refused *host.EngineError
	if err := d.Create(ctx, spec); !errors.As(err, &refused) || !strings.Contains(refused.Message, spec.Source) {
		t.Errorf("without its directory: %v; want a refusal that names it", err)
	}
	if _, err := os.Stat(spec.Source); err == nil {
		t.Error("the engine has made the directory")
	}
	d.must(os.Mkdir(spec.Source, 0o700))
	d.must(d.Create(ctx, spec))
	d.is(spec.Name, "created")
	d.must(d.Start(ctx, spec.Name))
	c := d.is(spec.Name, "running")
	if c.Image != id || c.Restart != "always" || c.Labels["who"] != "we" || !slices.Equal(c.Ports, []int{5000}) {
		t.Errorf("it is %+v", c)
	}
	answers(t, e, 5000)
	if options, err := e.Docker("inspect", "--format", "{{.HostConfig.SecurityOpt}}", spec.Name); err != nil || strings.TrimSpace(options) != "[label=level:s0]" {
		t.Errorf("under SELinux the next container could not read what this one writes: security options %s, %v", options, err)
	}
	if all, err := d.Containers(ctx); err != nil || len(all) != 1 || all[0].Name != spec.Name || all[0].PID != c.PID {
		t.Errorf("the containers are %+v, %v", all, err)
	}

	other := spec
	other.Name = "private_registry_next"
	d.must(d.Create(ctx, other))
	if err := d.Start(ctx, other.Name); !errors.As(err, &refused) || !strings.Contains(refused.Message, "port is already allocated") {
		t.Errorf("a second one at the port: %v", err)
	}
	_, err = e.Docker("pause", spec.Name)
	d.must(err)
	d.is(spec.Name, "paused")
	d.must(d.Unpause(ctx, spec.Name))
	d.must(d.SetRestart(ctx, spec.Name, "no"))
	if c := d.is(spec.Name, "running"); c.Restart != "no" {
		t.Errorf("it is %+v", c)
	}
	d.must(d.Stop(ctx, spec.Name))
	d.is(spec.Name, "exited")
	d.must(d.Remove(ctx, spec.Name))
	d.must(d.Remove(ctx, spec.Name))
	d.must(d.Rename(ctx, other.Name, spec.Name))
	d.must(d.Start(ctx, spec.Name))
	d.is(spec.Name, "running")
	answers(t, e, 5000)
	if c, err := d.Container(ctx, other.Name); c != nil || err != nil {
		t.Errorf("a container that is not there: %+v, %v", c, err)
	}

	before := d.changes.Count()
	d.is(spec.Name, "running")
	if since := d.changes.Count().Since(before); !since.None() {
		t.Errorf("to look counts as %s", since)
	}
	e.Kill()
	var down *host.EngineDownError
	if _, err := d.Container(ctx, spec.Name); !errors.As(err, &down) {
		t.Errorf("an engine that was killed: %v", err)
	}
	e.Start()
	soon(t, "the container, which is restarted always, with the engine", func() bool {
		c, err := d.Container(ctx, spec.Name)
		return err == nil && c != nil && c.Status == "running"
	})
	d.must(d.Remove(ctx, spec.Name))
	if _, err := os.Stat(spec.Source); err != nil {
		t.Error("the data went with the container:", err)
	}
}

// A file that is no image is refused with the engine's message.
func TestLoadOfAFileThatIsNoImage(t *testing.T) {
	results.Begin(t, "engine", "no image", "a file that is no image, and an image that does not exist, is refused with the engine's message")
	e := engine.Open(t)
	d := agentOf(t, e)
	var refused *host.EngineError
	if names, err := d.Load(t.Context(), strings.NewReader("no archive at all")); !errors.As(err, &refused) {
		t.Errorf("loaded %q, %v", names, err)
	}
	if err := d.Pull(t.Context(), "127.0.0.1:1/registry:latest"); !errors.As(err, &refused) || !strings.Contains(refused.Message, "127.0.0.1:1") {
		t.Errorf("pulled: %v", err)
	}
	d.load(registry.Small("small:1", 1000, 1), "small:1")
}

// answers wants a registry at the port, soon.
func answers(t *testing.T, e *engine.Engine, port int) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: e.Lab.Dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	url := fmt.Sprintf("http://127.0.0.1:%d/v2/", port)
	soon(t, "a registry at "+url, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK && resp.Header.Get("Docker-Distribution-Api-Version") == "registry/2.0"
	})
}

// soon waits for what another process does.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatal("never came: " + what)
		case <-tick.C:
		}
	}
}
