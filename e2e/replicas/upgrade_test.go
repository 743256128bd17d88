package replicas

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestUpgrade replaces the program of one controller after the other, the leader's last.
func TestUpgrade(t *testing.T) {
	longOnly(t, "upgrade")
	const version = "v9.9.9-upgrade"
	newer := filepath.Join(t.TempDir(), "nodehitch-controller")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", newer,
		"-ldflags", "-s -w -X github.com/nodehitch/nodehitch/shared/version.stamp=nodehitch-version<"+version+">", "../../controller")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	w := open(t, 3, 3)
	w.phase(t, "rolling upgrade", "one controller after the other gets another build, the leader last", func(c *results.Case) {
		order := slices.Clone(w.controllers)
		leader := w.leader()
		slices.SortStableFunc(order, func(a, b *controller) int {
			switch leader {
			case a:
				return 1
			case b:
				return -1
			}
			return 0
		})
		for _, each := range order {
			started := each.started()
			each.stop()
			each.setBinary(newer)
			each.start()
			loopback.Until(w.t, each.name+" has started", func() bool { return each.started() > started })
		}
		var now *api.Version
		w.must(w.caller(97).until(func(a *client.Controller) (err error) {
			now, err = client.Read[api.Version](a.GetVersion(w.t.Context()))
			return err
		}))
		c.Figure("who answers is", "%s", now.Version)
		if now.Version != version {
			w.t.Errorf("who answers is %s, expected %s", now.Version, version)
		}
	})
}
