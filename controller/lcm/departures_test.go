package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/invariant"
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
			w.Converge(c.owner) // it is Ready, and has not said that they have left
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

func TestAStartWhoseMembersCannotLeaveFailsAtOnce(t *testing.T) {
	for _, reason := range []api.Reason{api.ReasonUnmanagedPods, api.ReasonQuorumAtRisk} {
		t.Run(reason, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			version := w.Instance().DesiredVersion
			start := w.Post(lcmtest.ScaleInStart(lcmtest.SecondWorker))
			w.ReportStaying(reason)
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemMembersStay, reason+": Pod shop/web-0", "the previous desired state is in force again")
			w.WantAskedToLeave(lcmtest.MasterServer)
			if now := w.Instance().DesiredVersion; now != version {
				t.Errorf("version %d is in force, want %d", now, version)
			}
		})
	}
}

// However a START ends without its END, the members stay: the owner uncordons their Nodes.
func TestAStartThatEndsEarlyIsTakenBackFromTheMembers(t *testing.T) {
	end := func(w *lcmtest.World) { w.Clock.Advance(time.Hour); w.Must(w.LCM.Sweep(w.Ctx)) }
	for name, c := range map[string]struct {
		before  func(*lcmtest.World)
		ends    func(*lcmtest.World, api.Operation)
		problem string
		says    []string
	}{
		"its deadline": {func(w *lcmtest.World) { w.ReportStaying(api.ReasonEvictionBlocked) }, func(w *lcmtest.World, _ api.Operation) { end(w) },
			api.ProblemDeadline, []string{"after 30m0s the members had not left the cluster: master (" + lcmtest.MasterServer + "): EvictionBlocked, Pod shop/web-0"}},
		"an owner that never answers": {func(*lcmtest.World) {}, func(w *lcmtest.World, _ api.Operation) { end(w) }, api.ProblemDeadline, []string{"had not left", "it has not reported"}},
		"no END":                      {func(w *lcmtest.World) { w.ReportLeft(lcmtest.MasterServer) }, func(w *lcmtest.World, _ api.Operation) { end(w) }, api.ProblemInterrupted, nil},
		"a cancel":                    {func(*lcmtest.World) {}, func(w *lcmtest.World, op api.Operation) { w.MustCancel(op) }, api.ProblemCancelled, nil},
		"a cancel before its END":     {func(w *lcmtest.World) { w.ReportLeft(lcmtest.MasterServer) }, func(w *lcmtest.World, op api.Operation) { w.MustCancel(op) }, api.ProblemCancelled, nil},
		"another operation":           {func(w *lcmtest.World) { w.ReportLeft(lcmtest.MasterServer) }, func(w *lcmtest.World, _ api.Operation) { w.Post(lcmtest.Request(api.ModifyInfo, api.PhaseStart)) }, api.ProblemInterrupted, nil},
		"TERMINATE":                   {func(*lcmtest.World) {}, func(w *lcmtest.World, _ api.Operation) { w.Post(lcmtest.Request(api.Terminate, api.PhaseStart)) }, api.ProblemSuperseded, nil},
		"a PUT and its deadline": {func(w *lcmtest.World) {
			w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.20.0.0/24")}))
		}, func(w *lcmtest.World, _ api.Operation) { end(w) }, api.ProblemDeadline, []string{"a newer version of the desired state is in force and stays"}},
		"a restart and its deadline": {func(w *lcmtest.World) { w.Restart() }, func(w *lcmtest.World, _ api.Operation) { end(w) }, api.ProblemDeadline, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.WorkerServer))
			c.before(w)
			w.WantAskedToLeave(lcmtest.MasterServer, lcmtest.WorkerServer)
			c.ends(w, start)
			w.WantRefused(w.WantState(start, api.Failed).Error, c.problem, c.says...)
			w.WantAskedToLeave(lcmtest.MasterServer)
		})
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

// SCALE_IN without an END, as Tacker's v1 API posts it.
func TestAServerThatHasLeftTheClusterIsRetiredWithoutAnEnd(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{"as it wants": lcmtest.ScaleInStart(lcmtest.MemberStack), "by force": lcmtest.Forced(lcmtest.ScaleInStart(lcmtest.MemberStack))} {
		t.Run(name, func(t *testing.T) { retiredWithoutAnEnd(t, r) })
	}
}

func retiredWithoutAnEnd(t *testing.T, r api.OperationRequest) {
	w, c := lcmtest.CreatedWithMembers(t)
	w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.Parameters("10.10.0.0/24")}))
	for range 2 {
		w.Converge(w.Instance().Nodes...)
	}
	start := w.Post(r)
	w.ReportLeft(lcmtest.MasterServer)
	w.WantState(start, api.Completed)
	w.WantAskedToLeave(lcmtest.MasterServer, lcmtest.SecondWorker, lcmtest.ThirdWorker)
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	w.FallSilent(lcmtest.SecondWorker, lcmtest.ThirdWorker)
	retires(w, c)
	if has(w, lcmtest.SecondWorker) || w.Node(lcmtest.ThirdWorker).State != api.NodeRevoked {
		t.Errorf("%s is still there, or %s is %+v", lcmtest.SecondWorker, lcmtest.ThirdWorker, w.Node(lcmtest.ThirdWorker))
	}
	w.WantAskedToLeave(lcmtest.MasterServer)
	if broken, err := invariant.Check(w.Store, nil); err != nil || len(broken) > 0 {
		t.Errorf("the store is broken: %v, %v", broken, err)
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

// The documents of the others change by its name and by nothing else.
func TestAWorkerThatCallsIsAddedToItsCluster(t *testing.T) {
	w, c := lcmtest.Created(t)
	w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.Parameters("10.10.0.0/24")}))
	for range 2 {
		w.Converge(w.Instance().Nodes...)
	}
	c.Stacks[lcmtest.StackOne] = lcmtest.GrownTopology()
	w.Must(w.Enroll(lcmtest.SecondWorker))
	if config := w.Document(lcmtest.MasterServer); !has(w, lcmtest.SecondWorker) || len(config.ClusterMembers.Members) != 3 {
		t.Errorf("the topology has the worker: %v; the members are %+v", has(w, lcmtest.SecondWorker), config.ClusterMembers)
	}
}

func TestAPutTakesNoMemberFromAStartThatItLeaves(t *testing.T) {
	w := lcmtest.Clustered(t)
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.WorkerServer))
	gone := lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.10.0.0/24"), Topology: lcmtest.ClusterOf(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster, lcmtest.SecondWorker)})
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, gone)
	w.WantRefused(err, api.ProblemOperationInProgress, start.ID, lcmtest.WorkerServer)
	w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.20.0.0/24")}))
	w.WantAskedToLeave(lcmtest.MasterServer, lcmtest.WorkerServer)
	w.ReportLeft(lcmtest.MasterServer)
	w.WantState(start, api.Completed)
}

func TestAStartMayWaitForVolumesAndMembers(t *testing.T) {
	both := func(w *lcmtest.World, volumes, members api.Reason) {
		s := w.Status(lcmtest.MasterServer)
		s.Condition(api.ConditionPersistentVolumesRegistered).Reason = volumes
		s.Condition(api.ConditionClusterMembersLeft).Reason = members
		w.Report(lcmtest.MasterServer, s)
	}
	for name, c := range map[string]struct {
		volumes, members api.Reason
		state            api.OperationState
	}{
		"neither is gone": {api.ReasonReady, api.ReasonReady, api.Processing}, "the members are not": {api.ReasonAbsent, api.ReasonReady, api.Processing},
		"the volumes are not": {api.ReasonReady, api.ReasonMembersLeft, api.Processing}, "both are gone": {api.ReasonAbsent, api.ReasonMembersLeft, api.Completed},
		"the volumes are in use": {api.ReasonInUse, api.ReasonReady, api.Failed}, "the members cannot leave": {api.ReasonReady, api.ReasonUnmanagedPods, api.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer, lcmtest.WorkerServer))
			both(w, c.volumes, c.members)
			w.WantState(start, c.state)
		})
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

func TestAForcedStartWaitsForAnAnswerOnly(t *testing.T) {
	answers := func(reason api.Reason) func(*lcmtest.World) {
		return func(w *lcmtest.World) { w.ReportStaying(reason) }
	}
	for name, c := range map[string]struct {
		then  func(*lcmtest.World)
		state api.OperationState
	}{
		"no answer yet":           {func(*lcmtest.World) {}, api.Processing},
		"on its way":              {answers(api.ReasonConverging), api.Processing},
		"not confirmed":           {answers(api.ReasonWaitingForController), api.Processing},
		"Pods that stay":          {answers(api.ReasonEvictionBlocked), api.Completed},
		"Pods without controller": {answers(api.ReasonUnmanagedPods), api.Completed},
		"etcd without quorum":     {answers(api.ReasonQuorumAtRisk), api.Completed},
		"no cluster that answers": {answers(api.ReasonClusterNotInstalled), api.Completed},
		"all have left":           {func(w *lcmtest.World) { w.ReportLeft(lcmtest.MasterServer) }, api.Completed},
		"all masters fall silent": {func(w *lcmtest.World) { w.FallSilent(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster) }, api.Completed},
		"one master falls silent": {func(w *lcmtest.World) { w.FallSilent(lcmtest.MasterServer) }, api.Processing},
		"its deadline":            {func(w *lcmtest.World) { w.Clock.Advance(time.Hour); w.Must(w.LCM.Operations.Sweep(w.Ctx)) }, api.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Clustered(t)
			start := w.Post(lcmtest.Forced(lcmtest.ScaleInStart(lcmtest.WorkerServer, lcmtest.SecondWorker)))
			if !start.Force {
				t.Errorf("the record %+v does not say that it is forced", start)
			}
			if config, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, lcmtest.MasterServer); err != nil || !config.ClusterDepartures.Force {
				t.Errorf("the owner is asked for %+v, %v", config.ClusterDepartures, err)
			}
			c.then(w)
			w.WantState(start, c.state)
		})
	}
	t.Run("silent before it", func(t *testing.T) {
		w := lcmtest.Clustered(t)
		w.FallSilent(lcmtest.MasterServer, lcmtest.OtherMaster, lcmtest.LastMaster)
		if start := w.Post(lcmtest.Forced(lcmtest.ScaleInStart(lcmtest.WorkerServer))); start.State != api.Completed {
			t.Errorf("with no master heard of the START is %+v, want it COMPLETED", start)
		}
	})
	t.Run("and volumes that stay", func(t *testing.T) {
		w := lcmtest.Clustered(t)
		start := w.Post(lcmtest.Forced(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer, lcmtest.WorkerServer)))
		w.ReportStaying(api.ReasonEvictionBlocked)
		w.WantState(start, api.Processing)
		s := w.Status(lcmtest.MasterServer)
		s.Condition(api.ConditionPersistentVolumesRegistered).Reason = api.ReasonAbsent
		s.Condition(api.ConditionClusterMembersLeft).Reason = api.ReasonEvictionBlocked
		w.Report(lcmtest.MasterServer, s)
		w.WantState(start, api.Completed)
	})
}
