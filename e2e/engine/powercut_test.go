package engine_test

import (
	"errors"
	"path/filepath"
	"testing"

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
		t.Fatal("this engine flushes an image by itself, or repairs it: then the agent need not")
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
