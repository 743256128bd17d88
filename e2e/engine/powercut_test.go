package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/e2e/engine"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// What the agent relies on, and why it needs to: see host.Engine, Sync.
func TestPowerCutAfterALoad(t *testing.T) {
	r := results.Begin(t, "engine", "power cut", "an image that was loaded just before a power cut is damaged, also when it is loaded again; removed and loaded again it is whole, and once it is flushed it survives")
	e := engine.OpenOnDisk(t)
	d, ctx := agentOf(t, e), t.Context()
	// Docker compares each file of an image that it saves with the sum that it had.
	save := func() error {
		_, err := e.Docker("save", "--output", filepath.Join(e.Dir, "saved.tar"), "registry:latest")
		return err
	}
	server, err := registry.Server(0)
	d.must(err)
	d.load(server, "registry:latest")
	e.CutPower()
	id := d.load(server, "registry:latest")
	if save() == nil {
		t.Skip("this engine flushes an image by itself, or repairs it: then the agent need not")
	}
	d.must(d.RemoveImage(ctx, "registry:latest"))
	d.load(server, "registry:latest")
	d.must(save())
	d.must(e.Inside(func() error { return d.Sync(ctx) }))
	e.CutPower()
	found, err := d.Image(ctx, "registry:latest")
	if err := errors.Join(err, save()); found != id || err != nil {
		t.Fatalf("after a power cut the image is %q, want %s whole: %v", found, id, err)
	}
	r.Lost(0)
	d.must(d.RemoveImage(ctx, "none:latest"))
}

// hangs is a container runtime that never creates a container if the file $0.hangs exists.
const hangs = `#!/bin/sh
case " $* " in *" create "*) if [ -e "$0.hangs" ]; then touch "$0.hanging"; exec sleep infinity; fi;; esac
exec runc "$@"
`

// Why the agent restarts an engine that has the registry's port for no container: see release in
// agent/role/registryserver.
func TestPowerCutInAStart(t *testing.T) {
	results.Begin(t, "engine", "power cut in a start", "after a power cut in the start of a container the engine has its port for no container, also when the container is removed; a restart of the engine frees it")
	e := engine.OpenOnDisk(t)
	d, ctx := agentOf(t, e), t.Context()
	server, err := registry.Server(0)
	d.must(err)
	d.load(server, "registry:latest")
	runtime := filepath.Join(e.Dir, "runtime")
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	d.must(os.WriteFile(runtime, []byte(hangs), 0o700))
	d.must(os.WriteFile(runtime+".hangs", nil, 0o600))
	d.must(os.WriteFile(filepath.Join(e.Dir, "etc", "daemon.json"), []byte(`{"runtimes": {"hangs": {"path": "`+runtime+`"}}, "default-runtime": "hangs"}`), 0o600))
	e.Stop()
	e.Start()
	spec := host.ContainerSpec{
		Name: "private_registry", Image: "registry:latest", Restart: "always",
		Port: 5000, Inside: 5000, Source: filepath.Join(e.Dir, "data-of-the-registry"), Target: "/var/lib/registry",
	}
	d.must(os.Mkdir(spec.Source, 0o700))
	d.must(d.Create(ctx, spec))
	started := make(chan error, 1)
	go func() { started <- d.Start(ctx, spec.Name) }()
	soon(t, "the runtime", func() bool { return exists(runtime + ".hanging") })
	d.must(os.Remove(runtime + ".hangs"))
	e.CutPower()
	if err := <-started; err == nil {
		t.Fatal("the container was started before the power cut")
	}

	d.is(spec.Name, "created")
	var refused *host.EngineError
	if err := d.Start(ctx, spec.Name); err == nil {
		t.Skip("this engine has not kept the port: then the agent need not free it")
	} else if !errors.As(err, &refused) || !strings.Contains(refused.Message, "port is already allocated") {
		t.Fatal(err)
	}
	_, err = e.Docker("network", "disconnect", "--force", "bridge", spec.Name)
	d.must(err)
	d.must(d.Remove(ctx, spec.Name))
	d.must(d.Create(ctx, spec))
	if err := d.Start(ctx, spec.Name); err == nil {
		t.Error("a new container has got the port: then the agent need not restart the engine")
	}
	containers, err := d.Containers(ctx)
	if d.must(err); len(containers) != 1 || containers[0].PID != 0 || !slices.Equal(containers[0].Ports, []int{spec.Port}) {
		t.Errorf("the containers are %+v, want one that does not run", containers)
	}
	e.Stop()
	e.Start()
	d.must(d.Start(ctx, spec.Name))
	answers(t, e, spec.Port)
}
