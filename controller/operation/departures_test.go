package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestMembersLeaveBeforeTheirStartIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		start, end api.OperationRequest
		owner      string
		leave      []string
	}{
		"a worker by SCALE_IN": {lcmtest.ScaleInStart("vnfc-" + lcmtest.SecondWorker), lcmtest.Scale(api.ScaleIn, api.PhaseEnd, lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.WorkerServer)),
			lcmtest.MasterServer, []string{lcmtest.SecondWorker}},
		"a worker by HEAL": {lcmtest.Heal(api.PhaseStart, nil, lcmtest.WorkerServer), lcmtest.Heal(api.PhaseEnd, lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.SecondWorker), lcmtest.SecondWorker),
			lcmtest.MasterServer, []string{lcmtest.WorkerServer}},
		"two masters and a worker": {lcmtest.Heal(api.PhaseStart, nil, lcmtest.WorkerServer, lcmtest.LastMaster, lcmtest.OtherMaster), lcmtest.Heal(api.PhaseEnd, lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.SecondWorker), lcmtest.SecondWorker),
			lcmtest.MasterServer, []string{lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.WorkerServer}},
		"the master that speaks for the cluster": {lcmtest.Heal(api.PhaseStart, nil, lcmtest.MasterServer), lcmtest.Heal(api.PhaseEnd, lcmtest.ClusterOf(lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.WorkerServer, lcmtest.SecondWorker), lcmtest.OtherMaster),
			lcmtest.OtherMaster, []string{lcmtest.MasterServer}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			start := w.Post(c.start)
			var named []string
			for _, m := range start.Leaving {
				named = append(named, m.NodeID)
			}
			if start.State != api.Processing || !slices.Equal(named, c.leave) || start.Force {
				t.Fatalf("the START is %+v, want it PROCESSING until %v have left", start, c.leave)
			}
			w.WantAskedToLeave(c.owner, c.leave...)
			wantNotListed(w, c.owner, c.leave)
			w.Converge(c.owner) // the owner is Ready, and has not reported the departures
			w.WantState(start, api.Processing)
			w.ReportCondition(c.owner, api.ConditionClusterMembersLeft, api.ConditionFalse, api.ReasonEvictionBlocked, "Pod shop/web-0")
			if op := w.WantState(start, api.Processing); !slices.Equal(reconcile.TargetIDs(op.Targets), []string{c.owner}) ||
				op.Targets[0].Reason != api.ReasonEvictionBlocked || op.Targets[0].Message != "Pod shop/web-0" {
				t.Errorf("its targets are %+v, want what keeps them", op.Targets)
			}
			w.ReportLeft(c.owner)
			w.WantState(start, api.Completed)
			w.WantAskedToLeave(c.owner, c.leave...) // until their servers are gone

			end := w.Post(c.end)
			w.WantAskedToLeave(c.owner)
			w.Converge(w.Instance().Nodes...)
			w.Converge(w.Instance().Nodes...)
			w.WantState(end, api.Completed)
		})
	}
}

// wantNotListed wants no bootstrap token to be valid for a server that leaves, and the former
// owner to have nothing of the owner's.
func wantNotListed(w *lcmtest.World, owner string, leave []string) {
	w.Helper()
	config, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, owner)
	w.Must(err)
	for _, m := range config.ClusterMembers.Members {
		if slices.Contains(leave, m.ServerID) {
			w.Errorf("%s leaves, and is listed as a member: %+v", m.ServerID, m)
		}
	}
	for _, id := range leave {
		if was, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, id); err != nil || was.ClusterDepartures != nil || was.ClusterMembers != nil || was.PersistentVolumes != nil {
			w.Errorf("%s leaves, and speaks for the cluster: %+v, %v", id, was, err)
		}
	}
}

func TestAStartThatFailedIsPostedAgain(t *testing.T) {
	w := lcmtest.Clustered(t)
	r := lcmtest.ScaleInStart(lcmtest.SecondWorker)
	r.IdempotencyKey = "hook"
	first := w.Post(r)
	if again := w.Post(r); again.ID != first.ID || !again.Joined {
		t.Errorf("while it is in progress the key gives %+v", again)
	}
	w.ReportStaying(api.ReasonUnmanagedPods)
	w.WantState(first, api.Failed)
	second := w.Post(r)
	if second.ID == first.ID || second.State != api.Processing {
		t.Fatalf("posted again it is %+v, want another attempt", second)
	}
	w.WantAskedToLeave(lcmtest.MasterServer, lcmtest.SecondWorker)
	w.ReportLeft(lcmtest.MasterServer)
	w.WantState(second, api.Completed)
	if again := w.Post(r); again.ID != second.ID {
		t.Errorf("once it has succeeded the key gives %+v", again)
	}
}

// There is no cluster that anybody could leave, so the START waits for nobody.
func TestNobodyLeavesAClusterThatHasNoMember(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.Parameters("10.10.0.0/24"), Topology: lcmtest.TopologyOf(append(lcmtest.FullTopology().Servers, lcmtest.Server(lcmtest.OtherMaster, "master"))...)}))
	w.Must(w.Enroll(lcmtest.OtherMaster))
	for _, id := range []string{lcmtest.MasterServer, lcmtest.OtherMaster} {
		w.ReportNotJoined(id)
	}
	for _, id := range []string{lcmtest.MasterServer, lcmtest.WorkerServer} {
		w.WantState(w.Post(lcmtest.Heal(api.PhaseStart, nil, id)), api.Completed)
	}
}

func TestWhoLeavesTheCluster(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{
		"nobody by a HEAL of the entire VNF": lcmtest.Heal(api.PhaseStart, nil),
		"nobody if every server is named":    lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.WorkerServer, lcmtest.SecondWorker),
		"nobody by SCALE_OUT":                lcmtest.Scale(api.ScaleOut, api.PhaseStart, nil),
		"nobody by an END":                   lcmtest.Heal(api.PhaseEnd, lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.WorkerServer, lcmtest.UUID(3, 4)), lcmtest.UUID(3, 4)),
		"no server of another role":          lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer),
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			if op := w.Post(r); len(op.Leaving) > 0 {
				t.Errorf("%+v leave", op.Leaving)
			}
			w.WantAskedToLeave(lcmtest.MasterServer)
		})
	}
	t.Run("nobody without cluster_members", func(t *testing.T) {
		w := lcmtest.Instantiated(t)
		r := lcmtest.ScaleInStart(lcmtest.WorkerServer)
		if op := w.Post(r); op.State != api.Completed || len(op.Leaving) > 0 || w.AskedToLeave(lcmtest.MasterServer) != nil {
			t.Errorf("the START is %+v, and the master is asked for %v", op, w.AskedToLeave(lcmtest.MasterServer))
		}
	})
}

func TestMembersThatMayNotLeave(t *testing.T) {
	const force, named = "/force", "/vnfcInstanceIds"
	for name, c := range map[string]struct {
		r             api.OperationRequest
		pointer, says string
	}{
		"every worker":                  {lcmtest.ScaleInStart(lcmtest.WorkerServer, lcmtest.SecondWorker), named, "names every worker (" + lcmtest.WorkerServer + ", " + lcmtest.SecondWorker + ")"},
		"every master":                  {lcmtest.ScaleInStart(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster), named, "names every master"},
		"by force with another START":   {lcmtest.Forced(lcmtest.Scale(api.ScaleOut, api.PhaseStart, nil)), force, "leave it out of SCALE_OUT START"},
		"by force with TERMINATE":       {lcmtest.Forced(lcmtest.Request(api.Terminate, api.PhaseStart)), force, "leave it out"},
		"by force with an END":          {lcmtest.Forced(lcmtest.Heal(api.PhaseEnd, nil, lcmtest.WorkerServer)), force, "leave it out of HEAL"},
		"every master, by force":        {lcmtest.Forced(lcmtest.ScaleInStart(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster)), named, "names every master"},
		"the only master that is in it": {lcmtest.Heal(api.PhaseStart, nil, lcmtest.MasterServer), named, "no other master of the topology is one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			if strings.HasPrefix(name, "the only") {
				w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.10.0.0/24"), Topology: lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.WorkerServer, lcmtest.SecondWorker)}))
				w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.10.0.0/24"), Topology: lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.UUID(2, 4), lcmtest.WorkerServer, lcmtest.SecondWorker)}))
			}
			_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, c.r)
			faults := faults(w, err)
			if len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %+v, want one at %s that says %q", faults, c.pointer, c.says)
			}
			if list := w.AskedToLeave(lcmtest.MasterServer); len(list) > 0 {
				t.Errorf("the owner is asked to let %v leave", list)
			}
		})
	}
	t.Run("by force without cluster_members", func(t *testing.T) {
		w := lcmtest.Instantiated(t)
		_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Forced(lcmtest.ScaleInStart(lcmtest.WorkerServer)))
		if faults := faults(w, err); len(faults) != 1 || faults[0].Pointer != force || !strings.Contains(faults[0].Message, "no cluster_members") {
			t.Errorf("faults %+v, want one at %s", faults, force)
		}
	})
}
