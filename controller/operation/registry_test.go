package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestWhatIsNotDoneWithARegistry(t *testing.T) {
	empty := lcmtest.RegistryTopology(lcmtest.RegistryServer)
	empty.Servers = nil
	for name, c := range map[string]struct {
		r             api.OperationRequest
		pointer, says string
	}{
		"scale it out":                   {lcmtest.Scale(api.ScaleOut, api.PhaseEnd, nil), "/operation", "cannot be scaled"},
		"heal who is not known":          {lcmtest.Heal(api.PhaseStart, nil, lcmtest.RegistryServer, lcmtest.WorkerServer), "/vnfcInstanceIds/1", "no server has the VNFC instance"},
		"heal it away":                   {lcmtest.Heal(api.PhaseEnd, empty, lcmtest.RegistryServer), "/topology/servers", `connection point "CP1" (registry)`},
		"heal it into two":               {lcmtest.Heal(api.PhaseEnd, &api.Topology{Servers: slices.Concat(lcmtest.RegistryTopology(lcmtest.RegistryServer).Servers, lcmtest.RegistryTopology(lcmtest.RegistryHealed).Servers)}), "/topology/servers/1", "second registry server"},
		"heal it without an observation": {lcmtest.Heal(api.PhaseEnd, nil), "/topology", "nothing has changed since"},
		"heal it with masters only":      {lcmtest.Heal(api.PhaseEnd, lcmtest.FullTopology()), "/topology/servers", "holds no server with a role"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Registry(t)
			_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, c.r)
			if faults := faults(w, err); len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %v, want one at %s that says %q", faults, c.pointer, c.says)
			}
		})
	}
}
