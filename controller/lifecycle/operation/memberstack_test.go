package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestANestedStackNamesItsServers(t *testing.T) {
	w, c := lifecycletest.CreatedWithMembers(t)
	if op := w.Post(lifecycletest.ScaleInStart(strings.ToUpper(lifecycletest.MemberStack))); op.State != api.Completed {
		t.Errorf("SCALE_IN START of a nested stack is %+v, want COMPLETED", op)
	}
	end := lifecycletest.Heal(api.PhaseEnd, nil)
	end.VnfcInstanceIds = []string{lifecycletest.MemberStack}
	if op := w.Post(end); op.State != api.Completed || !slices.Equal(completion.TargetIDs(op.Targets), []string{lifecycletest.SecondWorker, lifecycletest.ThirdWorker}) {
		t.Errorf("HEAL END of a nested stack is %+v, want COMPLETED with its two servers as targets", op)
	}
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	if op := w.Post(lifecycletest.Scale(api.ScaleIn, api.PhaseEnd, nil)); op.State != api.Completed || w.Node(lifecycletest.ThirdWorker).State != api.NodeRevoked {
		t.Errorf("SCALE_IN END is %+v, and the worker %s", op, w.Node(lifecycletest.ThirdWorker).State)
	}
}

func TestAVNFCThatIsNotKnownIsAnsweredWithAllThatAre(t *testing.T) {
	w, _ := lifecycletest.CreatedWithMembers(t)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.ScaleInStart("worker-7", "", lifecycletest.MemberStack))
	faults := faults(w, err)
	if len(faults) != 2 || faults[0].Pointer != "/vnfcInstanceIds/0" || faults[1].Pointer != "/vnfcInstanceIds/1" {
		t.Fatalf("faults %+v, want one for each name that is not known", faults)
	}
	for _, id := range []string{`"worker-7"`, lifecycletest.StorageServer, "VNFC instance vnfc-" + lifecycletest.StorageServer, lifecycletest.WorkerServer, lifecycletest.SecondWorker, lifecycletest.ThirdWorker, "nested stack " + lifecycletest.MemberStack} {
		if !strings.Contains(faults[0].Message, id) {
			t.Errorf("the first fault does not say %s: %s", id, faults[0].Message)
		}
	}
	if strings.Contains(faults[1].Message, lifecycletest.WorkerServer) {
		t.Errorf("the list is there again: %s", faults[1].Message)
	}
}
