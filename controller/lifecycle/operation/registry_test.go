package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestWhatIsNotDoneWithARegistry(t *testing.T) {
	empty := lifecycletest.RegistryTopology(lifecycletest.RegistryServer)
	empty.Servers = nil
	for name, c := range map[string]struct {
		r             api.OperationRequest
		pointer, says string
	}{
		"scale it out":                   {lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil), "/operation", "cannot be scaled"},
		"heal who is not known":          {lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.RegistryServer, lifecycletest.WorkerServer), "/vnfcInstanceIds/1", "no server has the VNFC instance"},
		"heal it away":                   {lifecycletest.Heal(api.PhaseEnd, empty, lifecycletest.RegistryServer), "/topology/servers", `connection point "CP1" (registry)`},
		"heal it into two":               {lifecycletest.Heal(api.PhaseEnd, &api.Topology{Servers: slices.Concat(lifecycletest.RegistryTopology(lifecycletest.RegistryServer).Servers, lifecycletest.RegistryTopology(lifecycletest.RegistryHealed).Servers)}), "/topology/servers/1", "second registry server"},
		"heal it without an observation": {lifecycletest.Heal(api.PhaseEnd, nil), "/topology", "nothing has changed since"},
		"heal it with masters only":      {lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology()), "/topology/servers", "holds no server with a role"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registry(t)
			_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, c.r)
			if faults := faults(w, err); len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %v, want one at %s that says %q", faults, c.pointer, c.says)
			}
		})
	}
}
