package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
)

// The agent reads the running engine's list of insecure registries: after a reload it has
// each kind of entry of the file, and it is empty when the last entry is removed.
func TestInsecureRegistries(t *testing.T) {
	e := Open(t)
	paths := host.MachinePaths
	paths.EngineSocket = e.Socket
	engine := host.LinuxAt(paths, nil).Engine
	entries := []string{"10.0.0.7:5000", "registry.example.com", "[fd00::7]:5000"}
	const network = "10.1.0.0/16" // the owner's

	content, err := dockerconf.AddInsecure([]byte(`{"insecure-registries": ["`+network+`"]}`), entries...)
	if err != nil {
		t.Fatal(err)
	}
	e.reloadWith(content)
	becomes(t, engine, func(now []string) bool { return containsAll(now, append(entries, network)) })

	left, err := dockerconf.RemoveInsecure(content, append(entries, network)...)
	if err != nil {
		t.Fatal(err)
	}
	e.reloadWith(left)
	becomes(t, engine, func(now []string) bool { return !slices.ContainsFunc(entries, in(now)) })
}

func (e *Engine) reloadWith(daemonJSON []byte) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.Dir, "etc", "daemon.json"), daemonJSON, 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.Reload()
}

func in(list []string) func(string) bool {
	return func(s string) bool { return slices.Contains(list, s) }
}

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(list, s) })
}

// becomes waits until the engine's list is as wanted.
func becomes(t *testing.T, engine host.Engine, wanted func([]string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := engine.InsecureRegistries(ctx)
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		if wanted(now) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the engine still has %q", now)
		case <-tick.C:
		}
	}
}
