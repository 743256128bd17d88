package lab_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/registry"
)

// A container runs in a container's engine, comes back after a reboot, and leaves
// nothing on the host.
func TestNspawnRunsContainers(t *testing.T) {
	registry.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	var node lab.Node
	step(t, "machine with an engine", func(ctx context.Context) (err error) {
		node, err = l.Nspawn(ctx, lab.Spec{Name: "n", Engine: lab.EngineInstalled})
		return err
	})
	must(t, node.WaitCloudInit(t.Context()))
	if got := execute(t, node, "docker", "info", "--format", "{{.Driver}}"); got != "overlay2" {
		t.Errorf("Docker stores by %s", got)
	}
	image, err := registry.Server(0)
	must(t, err)
	var file bytes.Buffer
	must(t, image.Write(&file))
	must(t, node.Push(t.Context(), "/root/registry.tar", 0o600, file.Bytes()))
	execute(t, node, "docker", "load", "--quiet", "--input", "/root/registry.tar")
	execute(t, node, "docker", "run", "--detach", "--name", "registry", "--restart", "always", "--publish", "5000:5000", "registry")
	answers := []string{"curl", "--silent", "--fail", "--retry", "60", "--retry-delay", "1", "--retry-all-errors", "http://127.0.0.1:5000/v2/"}
	if got := execute(t, node, answers...); got != "{}" {
		t.Errorf("the registry says %q", got)
	}
	step(t, "reboot", node.Reboot)
	if got := execute(t, node, answers...); got != "{}" {
		t.Errorf("after a reboot the registry says %q", got)
	}
	leavesNothing(t, l)
}

// A VM has no engine on offer, and says so before it boots.
func TestVMOffersNoEngine(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	if _, err := l.VM(t.Context(), lab.Spec{Name: "n", Engine: lab.EngineOffered}); err == nil {
		t.Error("it boots")
	}
}
