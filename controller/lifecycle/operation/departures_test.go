package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestMembersLeaveBeforeTheirStartIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		start, end api.OperationRequest
		owner      string
		leave      []string
	}{
		"a worker by SCALE_IN": {lifecycletest.ScaleInStart("vnfc-" + lifecycletest.SecondWorker), lifecycletest.Scale(api.ScaleIn, api.PhaseEnd, lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.WorkerServer)),
			lifecycletest.MasterServer, []string{lifecycletest.SecondWorker}},
		"a worker by HEAL": {lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer), lifecycletest.Heal(api.PhaseEnd, lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.SecondWorker), lifecycletest.SecondWorker),
			lifecycletest.MasterServer, []string{lifecycletest.WorkerServer}},
		"two masters and a worker": {lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer, lifecycletest.LastMaster, lifecycletest.OtherMaster), lifecycletest.Heal(api.PhaseEnd, lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.SecondWorker), lifecycletest.SecondWorker),
			lifecycletest.MasterServer, []string{lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.WorkerServer}},
		"the master that speaks for the cluster": {lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.MasterServer), lifecycletest.Heal(api.PhaseEnd, lifecycletest.ClusterOf(lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.WorkerServer, lifecycletest.SecondWorker), lifecycletest.OtherMaster),
			lifecycletest.OtherMaster, []string{lifecycletest.MasterServer}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Clustered(t)
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
			if op := w.WantState(start, api.Processing); !slices.Equal(completion.TargetIDs(op.Targets), []string{c.owner}) ||
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
func wantNotListed(w *lifecycletest.World, owner string, leave []string) {
	w.Helper()
	config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, owner)
	w.Must(err)
	for _, m := range config.ClusterMembers.Members {
		if slices.Contains(leave, m.ServerID) {
			w.Errorf("%s leaves, and is listed as a member: %+v", m.ServerID, m)
		}
	}
	for _, id := range leave {
		if was, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, id); err != nil || was.ClusterDepartures != nil || was.ClusterMembers != nil || was.PersistentVolumes != nil {
			w.Errorf("%s leaves, and speaks for the cluster: %+v, %v", id, was, err)
		}
	}
}

func TestAStartThatFailedIsPostedAgain(t *testing.T) {
	w := lifecycletest.Clustered(t)
	r := lifecycletest.ScaleInStart(lifecycletest.SecondWorker)
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
	w.WantAskedToLeave(lifecycletest.MasterServer, lifecycletest.SecondWorker)
	w.ReportLeft(lifecycletest.MasterServer)
	w.WantState(second, api.Completed)
	if again := w.Post(r); again.ID != second.ID {
		t.Errorf("once it has succeeded the key gives %+v", again)
	}
}

// There is no cluster that anybody could leave, so the START waits for nobody.
func TestNobodyLeavesAClusterThatHasNoMember(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.Parameters("10.10.0.0/24"), Topology: lifecycletest.TopologyOf(append(lifecycletest.FullTopology().Servers, lifecycletest.Server(lifecycletest.OtherMaster, "master"))...)}))
	w.Must(w.Enroll(lifecycletest.OtherMaster))
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.OtherMaster} {
		w.ReportNotJoined(id)
	}
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		w.WantState(w.Post(lifecycletest.Heal(api.PhaseStart, nil, id)), api.Completed)
	}
}

func TestWhoLeavesTheCluster(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{
		"nobody by a HEAL of the entire VNF": lifecycletest.Heal(api.PhaseStart, nil),
		"nobody if every server is named":    lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.WorkerServer, lifecycletest.SecondWorker),
		"nobody by SCALE_OUT":                lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil),
		"nobody by an END":                   lifecycletest.Heal(api.PhaseEnd, lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.WorkerServer, lifecycletest.UUID(3, 4)), lifecycletest.UUID(3, 4)),
		"no server of another role":          lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer),
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Clustered(t)
			if op := w.Post(r); len(op.Leaving) > 0 {
				t.Errorf("%+v leave", op.Leaving)
			}
			w.WantAskedToLeave(lifecycletest.MasterServer)
		})
	}
	t.Run("nobody without cluster_members", func(t *testing.T) {
		w := lifecycletest.Instantiated(t)
		r := lifecycletest.ScaleInStart(lifecycletest.WorkerServer)
		if op := w.Post(r); op.State != api.Completed || len(op.Leaving) > 0 || w.AskedToLeave(lifecycletest.MasterServer) != nil {
			t.Errorf("the START is %+v, and the master is asked for %v", op, w.AskedToLeave(lifecycletest.MasterServer))
		}
	})
}

func TestMembersThatMayNotLeave(t *testing.T) {
	const force, named = "/force", "/vnfcInstanceIds"
	for name, c := range map[string]struct {
		r             api.OperationRequest
		pointer, says string
	}{
		"every worker":                  {lifecycletest.ScaleInStart(lifecycletest.WorkerServer, lifecycletest.SecondWorker), named, "names every worker (" + lifecycletest.WorkerServer + ", " + lifecycletest.SecondWorker + ")"},
		"every master":                  {lifecycletest.ScaleInStart(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster), named, "names every master"},
		"by force with another START":   {lifecycletest.Forced(lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil)), force, "leave it out of SCALE_OUT START"},
		"by force with TERMINATE":       {lifecycletest.Forced(lifecycletest.Request(api.Terminate, api.PhaseStart)), force, "leave it out"},
		"by force with an END":          {lifecycletest.Forced(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.WorkerServer)), force, "leave it out of HEAL"},
		"every master, by force":        {lifecycletest.Forced(lifecycletest.ScaleInStart(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster)), named, "names every master"},
		"the only master that is in it": {lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.MasterServer), named, "no other master of the topology is one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Clustered(t)
			if strings.HasPrefix(name, "the only") {
				w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24"), Topology: lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.WorkerServer, lifecycletest.SecondWorker)}))
				w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24"), Topology: lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.UUID(2, 4), lifecycletest.WorkerServer, lifecycletest.SecondWorker)}))
			}
			_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, c.r)
			faults := faults(w, err)
			if len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %+v, want one at %s that says %q", faults, c.pointer, c.says)
			}
			if list := w.AskedToLeave(lifecycletest.MasterServer); len(list) > 0 {
				t.Errorf("the owner is asked to let %v leave", list)
			}
		})
	}
	t.Run("by force without cluster_members", func(t *testing.T) {
		w := lifecycletest.Instantiated(t)
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Forced(lifecycletest.ScaleInStart(lifecycletest.WorkerServer)))
		if faults := faults(w, err); len(faults) != 1 || faults[0].Pointer != force || !strings.Contains(faults[0].Message, "no cluster_members") {
			t.Errorf("faults %+v, want one at %s", faults, force)
		}
	})
}
