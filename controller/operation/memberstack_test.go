package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestANestedStackNamesItsServers(t *testing.T) {
	w, c := lcmtest.CreatedWithMembers(t)
	if op := w.Post(lcmtest.ScaleInStart(strings.ToUpper(lcmtest.MemberStack))); op.State != api.Completed {
		t.Errorf("SCALE_IN START of a nested stack is %+v, want COMPLETED", op)
	}
	end := lcmtest.Heal(api.PhaseEnd, nil)
	end.VnfcInstanceIds = []string{lcmtest.MemberStack}
	if op := w.Post(end); op.State != api.Completed || !slices.Equal(reconcile.TargetIDs(op.Targets), []string{lcmtest.SecondWorker, lcmtest.ThirdWorker}) {
		t.Errorf("HEAL END of a nested stack is %+v, want COMPLETED with its two servers as targets", op)
	}
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	if op := w.Post(lcmtest.Scale(api.ScaleIn, api.PhaseEnd, nil)); op.State != api.Completed || w.Node(lcmtest.ThirdWorker).State != api.NodeRevoked {
		t.Errorf("SCALE_IN END is %+v, and the worker %s", op, w.Node(lcmtest.ThirdWorker).State)
	}
}

func TestAVNFCThatIsNotKnownIsAnsweredWithAllThatAre(t *testing.T) {
	w, _ := lcmtest.CreatedWithMembers(t)
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.ScaleInStart("worker-7", "", lcmtest.MemberStack))
	faults := faults(w, err)
	if len(faults) != 2 || faults[0].Pointer != "/vnfcInstanceIds/0" || faults[1].Pointer != "/vnfcInstanceIds/1" {
		t.Fatalf("faults %+v, want one for each name that is not known", faults)
	}
	for _, id := range []string{`"worker-7"`, lcmtest.StorageServer, "VNFC instance vnfc-" + lcmtest.StorageServer, lcmtest.WorkerServer, lcmtest.SecondWorker, lcmtest.ThirdWorker, "nested stack " + lcmtest.MemberStack} {
		if !strings.Contains(faults[0].Message, id) {
			t.Errorf("the first fault does not say %s: %s", id, faults[0].Message)
		}
	}
	if strings.Contains(faults[1].Message, lcmtest.WorkerServer) {
		t.Errorf("the list is there again: %s", faults[1].Message)
	}
}
