package lcm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// thirdWorker is in the same nested stack as secondWorker.
var thirdWorker = uuid(3, 3)

// memberStack is the id of that nested stack.
const memberStack = "0c7e1a52-9e42-4d9f-a14d-c80f6354000a"

// members is the stack with a group. One member of the group has two workers.
func members() *api.Topology {
	s := full()
	for _, id := range []string{secondWorker, thirdWorker} {
		worker := server(id, "worker")
		worker.VnfcInstanceID, worker.MemberStackID = "", memberStack
		s.Servers = append(s.Servers, worker)
	}
	return s
}

// inMembers is created with members.
func inMembers(t tester) (*world, *cloud) {
	t.Helper()
	w, c := created(t)
	c.stacks[stackOne] = members()
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, nil))
	w.converge(secondWorker, thirdWorker)
	if got := w.operation(op.ID); got.State != api.Completed {
		w.Fatalf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
	return w, c
}

// leave is a SCALE_IN START of these VNFCs.
func leave(vnfcs ...string) api.OperationRequest {
	r := scale(api.ScaleIn, api.PhaseStart, nil)
	r.VnfcInstanceIds = vnfcs
	return r
}

func TestANestedStackNamesItsServers(t *testing.T) {
	w, c := inMembers(t)
	if op := w.post(leave(strings.ToUpper(memberStack))); op.State != api.Completed {
		t.Errorf("SCALE_IN START of a nested stack is %+v, want COMPLETED", op)
	}
	end := heal(api.PhaseEnd, nil)
	end.VnfcInstanceIds = []string{memberStack}
	if op := w.post(end); op.State != api.Completed || !slices.Equal(reconcile.TargetIDs(op.Targets), []string{secondWorker, thirdWorker}) {
		t.Errorf("HEAL END of a nested stack is %+v, want COMPLETED with its two servers as targets", op)
	}
	c.stacks[stackOne] = full()
	if op := w.post(scale(api.ScaleIn, api.PhaseEnd, nil)); op.State != api.Completed || w.node(thirdWorker).State != api.NodeRevoked {
		t.Errorf("SCALE_IN END is %+v, and the worker %s", op, w.node(thirdWorker).State)
	}
}

// Only the START saw in which nested stack the server was.
func TestAServerWhoseNestedStackLeavesIsNotAdded(t *testing.T) {
	w, c := created(t)
	c.stacks[stackOne] = members()
	w.post(leave(memberStack))
	gone := full()
	gone.StackID = stackOne
	w.put(spec(gone))
	for i := range c.stacks[stackOne].Servers {
		c.stacks[stackOne].Servers[i].MemberStackID = ""
	}
	w.notLetIn(w.enroll(secondWorker))
}

func TestAVNFCThatIsNotKnownIsAnsweredWithAllThatAre(t *testing.T) {
	w, _ := inMembers(t)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, leave("worker-7", "", memberStack))
	faults := w.faults(err)
	if len(faults) != 2 || faults[0].Pointer != "/vnfcInstanceIds/0" || faults[1].Pointer != "/vnfcInstanceIds/1" {
		t.Fatalf("faults %+v, want one for each name that is not known", faults)
	}
	for _, id := range []string{`"worker-7"`, storageServer, "VNFC instance vnfc-" + storageServer, workerServer, secondWorker, thirdWorker, "nested stack " + memberStack} {
		if !strings.Contains(faults[0].Message, id) {
			t.Errorf("the first fault does not say %s: %s", id, faults[0].Message)
		}
	}
	if strings.Contains(faults[1].Message, workerServer) {
		t.Errorf("the list is there again: %s", faults[1].Message)
	}
}
