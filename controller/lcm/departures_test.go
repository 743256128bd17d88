package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/invariant"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// otherMaster and lastMaster are the masters besides masterServer. It speaks for the cluster,
// because its id is the lowest.
var otherMaster, lastMaster = uuid(2, 2), uuid(2, 3)

// clusterOf is the stack of the storage server and these others.
func clusterOf(ids ...string) *api.Topology {
	t := topologyOf(server(storageServer, "storage"))
	for _, id := range ids {
		role := "worker"
		if strings.HasPrefix(id, masterServer[:8]) {
			role = "master"
		}
		t.Servers = append(t.Servers, server(id, role))
	}
	return t
}

func wholeCluster() *api.Topology {
	return clusterOf(masterServer, otherMaster, lastMaster, workerServer, secondWorker)
}

// clustered is a world whose masters and workers are members of one cluster.
func clustered(t tester) *world {
	t.Helper()
	w := newWorld(t)
	w.put(asMembers(api.InstanceSpec{AdditionalParams: withManifest("10.10.0.0/24"), Topology: wholeCluster()}))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	for range 3 { // the facts and what the storage server serves reach the owner
		w.converge(w.instance().Nodes...)
	}
	w.wantState(op, api.Completed)
	if list := w.asked(masterServer); list == nil || len(list) > 0 {
		w.Fatalf("the owner is asked to let %v leave, want an empty list", list)
	}
	return w
}

// asked are the servers that the node's document asks it to let leave the cluster, nil for no
// such section.
func (w *world) asked(nodeID string) []string {
	w.Helper()
	config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, nodeID)
	w.must(err)
	if config.ClusterDepartures == nil {
		return nil
	}
	ids := []string{}
	for _, m := range config.ClusterDepartures.Members {
		ids = append(ids, m.ServerID)
	}
	return ids
}

// wantAsked wants the node's document to ask for these.
func (w *world) wantAsked(nodeID string, want ...string) {
	w.Helper()
	if got := w.asked(nodeID); got == nil || !slices.Equal(got, want) {
		w.Fatalf("%s is asked to let %v leave, want %v", nodeID, got, want)
	}
}

// left says in the node's name that all have left whom it was asked for.
func (w *world) left(nodeID string) {
	w.Helper()
	w.saysOf(nodeID, api.ConditionClusterMembersLeft, api.ConditionTrue, api.ReasonMembersLeft, "")
}

// stay says in the owner's name that they have not, and why.
func (w *world) stay(reason api.Reason) {
	w.Helper()
	w.saysOf(masterServer, api.ConditionClusterMembersLeft, api.ConditionFalse, reason, "Pod shop/web-0")
}

func forced(r api.OperationRequest) api.OperationRequest {
	r.Force = true
	return r
}

func TestMembersLeaveBeforeTheirStartIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		start, end api.OperationRequest
		owner      string
		leave      []string
	}{
		"a worker by SCALE_IN": {leave("vnfc-" + secondWorker), scale(api.ScaleIn, api.PhaseEnd, clusterOf(masterServer, otherMaster, lastMaster, workerServer)),
			masterServer, []string{secondWorker}},
		"a worker by HEAL": {heal(api.PhaseStart, nil, workerServer), heal(api.PhaseEnd, clusterOf(masterServer, otherMaster, lastMaster, secondWorker), secondWorker),
			masterServer, []string{workerServer}},
		"two masters and a worker": {heal(api.PhaseStart, nil, workerServer, lastMaster, otherMaster), heal(api.PhaseEnd, clusterOf(masterServer, secondWorker), secondWorker),
			masterServer, []string{otherMaster, lastMaster, workerServer}},
		"the master that speaks for the cluster": {heal(api.PhaseStart, nil, masterServer), heal(api.PhaseEnd, clusterOf(otherMaster, lastMaster, workerServer, secondWorker), otherMaster),
			otherMaster, []string{masterServer}},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustered(t)
			start := w.post(c.start)
			var named []string
			for _, m := range start.Leaving {
				named = append(named, m.NodeID)
			}
			if start.State != api.Processing || !slices.Equal(named, c.leave) || start.Force {
				t.Fatalf("the START is %+v, want it PROCESSING until %v have left", start, c.leave)
			}
			w.wantAsked(c.owner, c.leave...)
			w.wantNotListed(c.owner, c.leave)
			w.converge(c.owner) // it is Ready, and has not said that they have left
			w.wantState(start, api.Processing)
			w.saysOf(c.owner, api.ConditionClusterMembersLeft, api.ConditionFalse, api.ReasonEvictionBlocked, "Pod shop/web-0")
			if op := w.wantState(start, api.Processing); !slices.Equal(reconcile.TargetIDs(op.Targets), []string{c.owner}) ||
				op.Targets[0].Reason != api.ReasonEvictionBlocked || op.Targets[0].Message != "Pod shop/web-0" {
				t.Errorf("its targets are %+v, want what keeps them", op.Targets)
			}
			w.left(c.owner)
			w.wantState(start, api.Completed)
			w.wantAsked(c.owner, c.leave...) // until their servers are gone

			end := w.post(c.end)
			w.wantAsked(c.owner)
			w.converge(w.instance().Nodes...)
			w.converge(w.instance().Nodes...)
			w.wantState(end, api.Completed)
		})
	}
}

// wantNotListed wants no bootstrap token to be valid for a server that leaves, and the former
// owner to have nothing of the owner's.
func (w *world) wantNotListed(owner string, leave []string) {
	w.Helper()
	config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, owner)
	w.must(err)
	for _, m := range config.ClusterMembers.Members {
		if slices.Contains(leave, m.ServerID) {
			w.Errorf("%s leaves, and is listed as a member: %+v", m.ServerID, m)
		}
	}
	for _, id := range leave {
		if was, _, err := w.LCM.Nodes.NodeConfig(w.ctx, id); err != nil || was.ClusterDepartures != nil || was.ClusterMembers != nil || was.PersistentVolumes != nil {
			w.Errorf("%s leaves, and speaks for the cluster: %+v, %v", id, was, err)
		}
	}
}

func TestAStartWhoseMembersCannotLeaveFailsAtOnce(t *testing.T) {
	for _, reason := range []api.Reason{api.ReasonUnmanagedPods, api.ReasonQuorumAtRisk} {
		t.Run(reason, func(t *testing.T) {
			w := clustered(t)
			version := w.instance().DesiredVersion
			start := w.post(leave(secondWorker))
			w.stay(reason)
			w.refused(w.wantState(start, api.Failed).Error, api.ProblemMembersStay, reason+": Pod shop/web-0", "the previous desired state is in force again")
			w.wantAsked(masterServer)
			if now := w.instance().DesiredVersion; now != version {
				t.Errorf("version %d is in force, want %d", now, version)
			}
		})
	}
}

// However a START ends without its END, the members stay: the owner uncordons their Nodes.
func TestAStartThatEndsEarlyIsTakenBackFromTheMembers(t *testing.T) {
	end := func(w *world) { w.Clock.Advance(time.Hour); w.must(w.LCM.Sweep(w.ctx)) }
	for name, c := range map[string]struct {
		before  func(*world)
		ends    func(*world, api.Operation)
		problem string
		says    []string
	}{
		"its deadline": {func(w *world) { w.stay(api.ReasonEvictionBlocked) }, func(w *world, _ api.Operation) { end(w) },
			api.ProblemDeadline, []string{"after 30m0s the members had not left the cluster: master (" + masterServer + "): EvictionBlocked, Pod shop/web-0"}},
		"an owner that never answers": {func(*world) {}, func(w *world, _ api.Operation) { end(w) }, api.ProblemDeadline, []string{"had not left", "it has not reported"}},
		"no END":                      {func(w *world) { w.left(masterServer) }, func(w *world, _ api.Operation) { end(w) }, api.ProblemInterrupted, nil},
		"a cancel":                    {func(*world) {}, func(w *world, op api.Operation) { w.cancelled(op) }, api.ProblemCancelled, nil},
		"a cancel before its END":     {func(w *world) { w.left(masterServer) }, func(w *world, op api.Operation) { w.cancelled(op) }, api.ProblemCancelled, nil},
		"another operation":           {func(w *world) { w.left(masterServer) }, func(w *world, _ api.Operation) { w.post(request(api.ModifyInfo, api.PhaseStart)) }, api.ProblemInterrupted, nil},
		"TERMINATE":                   {func(*world) {}, func(w *world, _ api.Operation) { w.post(request(api.Terminate, api.PhaseStart)) }, api.ProblemSuperseded, nil},
		"a PUT and its deadline": {func(w *world) {
			w.put(asMembers(api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}))
		}, func(w *world, _ api.Operation) { end(w) }, api.ProblemDeadline, []string{"a newer version of the desired state is in force and stays"}},
		"a restart and its deadline": {func(w *world) { w.restart() }, func(w *world, _ api.Operation) { end(w) }, api.ProblemDeadline, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustered(t)
			start := w.post(heal(api.PhaseStart, nil, workerServer))
			c.before(w)
			w.wantAsked(masterServer, workerServer)
			c.ends(w, start)
			w.refused(w.wantState(start, api.Failed).Error, c.problem, c.says...)
			w.wantAsked(masterServer)
		})
	}
}

func TestAStartThatFailedIsPostedAgain(t *testing.T) {
	w := clustered(t)
	r := leave(secondWorker)
	r.IdempotencyKey = "hook"
	first := w.post(r)
	if again := w.post(r); again.ID != first.ID || !again.Joined {
		t.Errorf("while it is in progress the key gives %+v", again)
	}
	w.stay(api.ReasonUnmanagedPods)
	w.wantState(first, api.Failed)
	second := w.post(r)
	if second.ID == first.ID || second.State != api.Processing {
		t.Fatalf("posted again it is %+v, want another attempt", second)
	}
	w.wantAsked(masterServer, secondWorker)
	w.left(masterServer)
	w.wantState(second, api.Completed)
	if again := w.post(r); again.ID != second.ID {
		t.Errorf("once it has succeeded the key gives %+v", again)
	}
}

// SCALE_IN without an END, as Tacker's v1 API posts it.
func TestAServerThatHasLeftTheClusterIsRetiredWithoutAnEnd(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{"as it wants": leave(memberStack), "by force": forced(leave(memberStack))} {
		t.Run(name, func(t *testing.T) { retiredWithoutAnEnd(t, r) })
	}
}

func retiredWithoutAnEnd(t *testing.T, r api.OperationRequest) {
	w, c := inMembers(t)
	w.put(asMembers(api.InstanceSpec{AdditionalParams: parameters("10.10.0.0/24")}))
	for range 2 {
		w.converge(w.instance().Nodes...)
	}
	start := w.post(r)
	w.left(masterServer)
	w.wantState(start, api.Completed)
	w.wantAsked(masterServer, secondWorker, thirdWorker)
	c.stacks[stackOne] = full()
	w.silent(secondWorker, thirdWorker)
	w.retires(c)
	if w.has(secondWorker) || w.node(thirdWorker).State != api.NodeRevoked {
		t.Errorf("%s is still there, or %s is %+v", secondWorker, thirdWorker, w.node(thirdWorker))
	}
	w.wantAsked(masterServer)
	if broken, err := invariant.Check(w.Store, nil); err != nil || len(broken) > 0 {
		t.Errorf("the store is broken: %v, %v", broken, err)
	}
}

// There is no cluster that anybody could leave, so the START waits for nobody.
func TestNobodyLeavesAClusterThatHasNoMember(t *testing.T) {
	w := instantiated(t)
	w.put(asMembers(api.InstanceSpec{AdditionalParams: parameters("10.10.0.0/24"), Topology: topologyOf(append(full().Servers, server(otherMaster, "master"))...)}))
	w.must(w.enroll(otherMaster))
	for _, id := range []string{masterServer, otherMaster} {
		w.notJoined(id)
	}
	for _, id := range []string{masterServer, workerServer} {
		w.wantState(w.post(heal(api.PhaseStart, nil, id)), api.Completed)
	}
}

// The documents of the others change by its name and by nothing else.
func TestAWorkerThatCallsIsAddedToItsCluster(t *testing.T) {
	w, c := created(t)
	w.put(asMembers(api.InstanceSpec{AdditionalParams: parameters("10.10.0.0/24")}))
	for range 2 {
		w.converge(w.instance().Nodes...)
	}
	c.stacks[stackOne] = grown()
	w.must(w.enroll(secondWorker))
	if config := w.config(masterServer); !w.has(secondWorker) || len(config.ClusterMembers.Members) != 3 {
		t.Errorf("the topology has the worker: %v; the members are %+v", w.has(secondWorker), config.ClusterMembers)
	}
}

func TestAPutTakesNoMemberFromAStartThatItLeaves(t *testing.T) {
	w := clustered(t)
	start := w.post(heal(api.PhaseStart, nil, workerServer))
	gone := asMembers(api.InstanceSpec{AdditionalParams: withManifest("10.10.0.0/24"), Topology: clusterOf(masterServer, otherMaster, lastMaster, secondWorker)})
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, gone)
	w.refused(err, api.ProblemOperationInProgress, start.ID, workerServer)
	w.put(asMembers(api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}))
	w.wantAsked(masterServer, workerServer)
	w.left(masterServer)
	w.wantState(start, api.Completed)
}

func TestAStartMayWaitForVolumesAndMembers(t *testing.T) {
	both := func(w *world, volumes, members api.Reason) {
		s := w.status(masterServer)
		s.Condition(api.ConditionPersistentVolumesRegistered).Reason = volumes
		s.Condition(api.ConditionClusterMembersLeft).Reason = members
		w.report(masterServer, s)
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
			w := clustered(t)
			start := w.post(heal(api.PhaseStart, nil, storageServer, workerServer))
			both(w, c.volumes, c.members)
			w.wantState(start, c.state)
		})
	}
}

func TestWhoLeavesTheCluster(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{
		"nobody by a HEAL of the entire VNF": heal(api.PhaseStart, nil),
		"nobody if every server is named":    heal(api.PhaseStart, nil, storageServer, masterServer, otherMaster, lastMaster, workerServer, secondWorker),
		"nobody by SCALE_OUT":                scale(api.ScaleOut, api.PhaseStart, nil),
		"nobody by an END":                   heal(api.PhaseEnd, clusterOf(masterServer, otherMaster, lastMaster, workerServer, uuid(3, 4)), uuid(3, 4)),
		"no server of another role":          heal(api.PhaseStart, nil, storageServer),
	} {
		t.Run(name, func(t *testing.T) {
			w := clustered(t)
			if op := w.post(r); len(op.Leaving) > 0 {
				t.Errorf("%+v leave", op.Leaving)
			}
			w.wantAsked(masterServer)
		})
	}
	t.Run("nobody without cluster_members", func(t *testing.T) {
		w := instantiated(t)
		r := leave(workerServer)
		if op := w.post(r); op.State != api.Completed || len(op.Leaving) > 0 || w.asked(masterServer) != nil {
			t.Errorf("the START is %+v, and the master is asked for %v", op, w.asked(masterServer))
		}
	})
}

func TestMembersThatMayNotLeave(t *testing.T) {
	const force, named = "/force", "/vnfcInstanceIds"
	for name, c := range map[string]struct {
		r             api.OperationRequest
		pointer, says string
	}{
		"every worker":                  {leave(workerServer, secondWorker), named, "names every worker (" + workerServer + ", " + secondWorker + ")"},
		"every master":                  {leave(masterServer, otherMaster, lastMaster), named, "names every master"},
		"by force with another START":   {forced(scale(api.ScaleOut, api.PhaseStart, nil)), force, "leave it out of SCALE_OUT START"},
		"by force with TERMINATE":       {forced(request(api.Terminate, api.PhaseStart)), force, "leave it out"},
		"by force with an END":          {forced(heal(api.PhaseEnd, nil, workerServer)), force, "leave it out of HEAL"},
		"every master, by force":        {forced(leave(masterServer, otherMaster, lastMaster)), named, "names every master"},
		"the only master that is in it": {heal(api.PhaseStart, nil, masterServer), named, "no other master of the topology is one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustered(t)
			if strings.HasPrefix(name, "the only") {
				w.put(asMembers(api.InstanceSpec{AdditionalParams: withManifest("10.10.0.0/24"), Topology: clusterOf(masterServer, workerServer, secondWorker)}))
				w.put(asMembers(api.InstanceSpec{AdditionalParams: withManifest("10.10.0.0/24"), Topology: clusterOf(masterServer, uuid(2, 4), workerServer, secondWorker)}))
			}
			_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, c.r)
			faults := w.faults(err)
			if len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %+v, want one at %s that says %q", faults, c.pointer, c.says)
			}
			if list := w.asked(masterServer); len(list) > 0 {
				t.Errorf("the owner is asked to let %v leave", list)
			}
		})
	}
	t.Run("by force without cluster_members", func(t *testing.T) {
		w := instantiated(t)
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, forced(leave(workerServer)))
		if faults := w.faults(err); len(faults) != 1 || faults[0].Pointer != force || !strings.Contains(faults[0].Message, "no cluster_members") {
			t.Errorf("faults %+v, want one at %s", faults, force)
		}
	})
}

func TestAForcedStartWaitsForAnAnswerOnly(t *testing.T) {
	answers := func(reason api.Reason) func(*world) { return func(w *world) { w.stay(reason) } }
	for name, c := range map[string]struct {
		then  func(*world)
		state api.OperationState
	}{
		"no answer yet":           {func(*world) {}, api.Processing},
		"on its way":              {answers(api.ReasonConverging), api.Processing},
		"not confirmed":           {answers(api.ReasonWaitingForController), api.Processing},
		"Pods that stay":          {answers(api.ReasonEvictionBlocked), api.Completed},
		"Pods without controller": {answers(api.ReasonUnmanagedPods), api.Completed},
		"etcd without quorum":     {answers(api.ReasonQuorumAtRisk), api.Completed},
		"no cluster that answers": {answers(api.ReasonClusterNotInstalled), api.Completed},
		"all have left":           {func(w *world) { w.left(masterServer) }, api.Completed},
		"all masters fall silent": {func(w *world) { w.silent(masterServer, otherMaster, lastMaster) }, api.Completed},
		"one master falls silent": {func(w *world) { w.silent(masterServer) }, api.Processing},
		"its deadline":            {func(w *world) { w.Clock.Advance(time.Hour); w.must(w.LCM.Operations.Sweep(w.ctx)) }, api.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustered(t)
			start := w.post(forced(leave(workerServer, secondWorker)))
			if !start.Force {
				t.Errorf("the record %+v does not say that it is forced", start)
			}
			if config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, masterServer); err != nil || !config.ClusterDepartures.Force {
				t.Errorf("the owner is asked for %+v, %v", config.ClusterDepartures, err)
			}
			c.then(w)
			w.wantState(start, c.state)
		})
	}
	t.Run("silent before it", func(t *testing.T) {
		w := clustered(t)
		w.silent(masterServer, otherMaster, lastMaster)
		if start := w.post(forced(leave(workerServer))); start.State != api.Completed {
			t.Errorf("with no master heard of the START is %+v, want it COMPLETED", start)
		}
	})
	t.Run("and volumes that stay", func(t *testing.T) {
		w := clustered(t)
		start := w.post(forced(heal(api.PhaseStart, nil, storageServer, workerServer)))
		w.stay(api.ReasonEvictionBlocked)
		w.wantState(start, api.Processing)
		s := w.status(masterServer)
		s.Condition(api.ConditionPersistentVolumesRegistered).Reason = api.ReasonAbsent
		s.Condition(api.ConditionClusterMembersLeft).Reason = api.ReasonEvictionBlocked
		w.report(masterServer, s)
		w.wantState(start, api.Completed)
	})
}
