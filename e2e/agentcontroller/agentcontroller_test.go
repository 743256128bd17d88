package agentcontroller

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// instantiated is an instance whose storage server is Ready.
func instantiated(t *testing.T) (controller, *node, func()) {
	t.Helper()
	c := newController(t)
	c.Put(instance, topology())
	n := newNode(t, c)
	stop := n.start()
	loopback.Until(t, "the node is Ready", func() bool { return c.node().Ready })
	return c, n, stop
}

func TestInstantiate(t *testing.T) {
	c := newController(t)
	c.Put(instance, nil)
	if op := c.Outcome(instance, c.Operate(instance, api.OperationRequest{Operation: api.Instantiate, Phase: api.PhaseStart})); op.State != api.Completed {
		t.Fatalf("START: %+v", op)
	}
	n := newNode(t, c) // the VM boots before its id is in a topology
	n.unplug(true)
	n.start()
	loopback.Until(t, "it waits for the topology", func() bool { return strings.Contains(n.status().Controller.LastError, "does not name the server") })
	end := c.Operate(instance, api.OperationRequest{Operation: api.Instantiate, Phase: api.PhaseEnd, Topology: topology()})
	loopback.Until(t, "the controller knows why it waits", func() bool {
		condition := c.node().Status.Condition(api.ConditionVolumesMounted)
		return condition != nil && condition.Reason == api.ReasonWaitingForDevice
	})
	n.unplug(false)
	if op := c.Outcome(instance, end); op.State != api.Completed {
		t.Fatalf("END: %+v", op)
	}
	node, doc := c.node(), n.last()
	if !node.Ready || node.Status.AppliedDigest != node.Digest || node.Status.AppliedGeneration != node.Generation || node.CertificateSerial == "" {
		t.Errorf("node %+v, status %+v", node, node.Status)
	}
	if doc.Digest() != node.Digest || doc.Storage.Volumes[0].VolumeID != volume || doc.Storage.Exports[0].Client != "10.10.0.0/24" {
		t.Errorf("converged %+v", doc)
	}
}

// An agent that waits for an operator ends the END after the grace. It tries again all the
// time, so what is mended meanwhile, or later, counts by itself.
func TestAnEndFailsForADiskWithDataOfOthers(t *testing.T) {
	results.LongOnly(t) // no grace is shorter than an agent's longest pause
	c := controller{loopback.Open(t, loopback.Options{Settings: map[string]string{"failureGraceSeconds": "60"}}), t}
	c.Put(instance, topology())
	n := newNode(t, c)
	n.fill(true)
	n.start()
	loopback.Until(t, "the controller knows that it has failed", func() bool {
		condition := c.node().Status.Condition(api.ConditionVolumesMounted)
		return condition != nil && condition.Reason == api.ReasonForeignData
	})
	before := n.passes()
	op := c.Outcome(instance, c.Operate(instance, api.OperationRequest{Operation: api.Instantiate, Phase: api.PhaseEnd, DeadlineSeconds: 3600}))
	if op.State != api.Failed || op.Error.Type != api.ProblemTargetsFailed || !strings.Contains(op.Error.Detail, "ForeignData") || !op.Targets[0].Final {
		t.Fatalf("END: %+v, %v", op, op.Error)
	}
	if n.passes() == before {
		t.Error("the agent did not try again before the END failed")
	}
	again := c.Operate(instance, api.OperationRequest{Operation: api.Instantiate, Phase: api.PhaseEnd})
	n.fill(false)
	if op := c.Outcome(instance, again); op.State != api.Completed {
		t.Errorf("END after the disk was mended: %+v, %v", op, op.Error)
	}
}

func TestFormatExchange(t *testing.T) {
	_, n, _ := instantiated(t)
	f := storage.Format{VolumeID: volume, FilesystemUUID: api.FilesystemUUID(volume), SizeBytes: size, Device: "/dev/disk/by-id/virtio-x",
		BlankCheck: &api.BlankCheck{BytesRead: 1 << 20, Samples: 64}}
	var waiting *converge.Waiting

	other := f
	other.SizeBytes = 2 * size
	if _, err := n.permits.Wanted(t.Context(), other); !errors.As(err, &waiting) || waiting.Reason != api.ReasonNoPermit {
		t.Errorf("a disk of another size: %v", err)
	}
	unchecked := f
	unchecked.BlankCheck = nil
	if _, err := n.permits.Wanted(t.Context(), unchecked); !errors.As(err, &waiting) || !strings.Contains(waiting.Message, "hitchctl volume adopt") {
		t.Errorf("no blank check: %v", err)
	}
	permit, err := n.permits.Wanted(t.Context(), f)
	if err != nil || permit.ID == "" || permit.Overwrite {
		t.Fatalf("wanted: %+v, %v", permit, err)
	}
	if again, err := n.permits.Wanted(t.Context(), f); err != nil || again != permit {
		t.Errorf("wanted again: %+v, %v", again, err)
	}
	f.Permit = "another"
	if err := n.permits.Started(t.Context(), f); err == nil {
		t.Error("started with a permit that was never given")
	}
	f.Permit = permit.ID
	for range 2 {
		if err := n.permits.Started(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := n.permits.Formatted(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.permits.Wanted(t.Context(), f); !errors.As(err, &waiting) || !strings.Contains(waiting.Message, "formatted once") {
		t.Errorf("a second format: %v", err)
	}
}

func TestFormatOfALostNode(t *testing.T) {
	c, n, _ := instantiated(t)
	f := storage.Format{VolumeID: volume, FilesystemUUID: api.FilesystemUUID(volume), SizeBytes: size, BlankCheck: &api.BlankCheck{BytesRead: 1, Samples: 1}}
	permit, err := n.permits.Wanted(t.Context(), f)
	f.Permit = permit.ID
	if err == nil {
		err = n.permits.Started(t.Context(), f)
	}
	if err != nil {
		t.Fatal(err)
	}
	serial := c.node().CertificateSerial
	c.reenroll()
	loopback.Until(t, "it has enrolled anew", func() bool {
		s := n.status().Controller
		return s.Connected && s.CertificateSerial != serial && s.CertificateSerial == c.node().CertificateSerial
	})
	_, err = n.permits.Wanted(t.Context(), f)
	var terminal *converge.Terminal
	if !errors.As(err, &terminal) || terminal.Reason != api.ReasonFormatInterrupted || !strings.Contains(terminal.Message, "hitchctl volume reformat") {
		t.Errorf("got %v", err)
	}
}

func TestRevokedNodeKeepsWhatItHas(t *testing.T) {
	c, n, _ := instantiated(t)
	before := n.last()
	c.revoke()
	loopback.Until(t, "the refusal is known", func() bool { return strings.Contains(n.status().Controller.LastError, "revoked") })
	if after := n.last(); after.Digest() != before.Digest() {
		t.Errorf("converged %+v after the revocation", after)
	}
	c.reenroll()
	loopback.Until(t, "it is back without a change on the machine", func() bool { return n.status().Controller.Connected && c.node().Ready })
}

func TestControllerIsKilledAndComesBack(t *testing.T) {
	c, n, _ := instantiated(t)
	before := c.node()
	c.End(syscall.SIGKILL)
	loopback.Until(t, "the loss is noticed", func() bool { return !n.status().Controller.Connected })
	n.unplug(true)
	c.Start()
	loopback.Until(t, "the controller has the status that changed meanwhile", func() bool {
		condition := c.node().Status.Condition(api.ConditionVolumesMounted)
		return condition != nil && condition.Reason == api.ReasonWaitingForDevice
	})
	if after := c.node(); after.CertificateSerial != before.CertificateSerial || after.Generation != before.Generation {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestAgentRestartIsNoTransition(t *testing.T) {
	c, n, stop := instantiated(t)
	before := c.node()
	stop()
	n.start()
	loopback.Until(t, "it polls again", func() bool { s := n.status(); return s.Controller.Connected && s.Origin == "controller" })
	after := c.node()
	if !after.Ready || after.CertificateSerial != before.CertificateSerial {
		t.Errorf("after the restart: %+v", after)
	}
	ready := after.Status.Condition(api.ConditionReady)
	if !ready.LastTransitionTime.Equal(before.Status.Condition(api.ConditionReady).LastTransitionTime) {
		t.Errorf("the restart shows as a transition of Ready: %+v", ready)
	}
}

func TestSecondMachineWithTheSameID(t *testing.T) {
	c, _, _ := instantiated(t)
	thief := newNode(t, c)
	thief.start()
	loopback.Until(t, "it is told what to do", func() bool { return strings.Contains(thief.status().Summary(), "hitchctl node reenroll "+server) })
	if !c.node().Ready {
		t.Error("the first machine is affected")
	}
}
