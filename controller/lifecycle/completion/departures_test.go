package completion_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// However a START ends without its END, the members stay: the owner uncordons their Nodes.
func TestAStartThatEndsEarlyIsTakenBackFromTheMembers(t *testing.T) {
	end := func(w *lifecycletest.World) { w.Clock.Advance(time.Hour); w.Must(w.Lifecycle.Sweep(w.Ctx)) }
	for name, c := range map[string]struct {
		before  func(*lifecycletest.World)
		ends    func(*lifecycletest.World, api.Operation)
		problem string
		says    []string
	}{
		"its deadline": {func(w *lifecycletest.World) { w.ReportStaying(api.ReasonEvictionBlocked) }, func(w *lifecycletest.World, _ api.Operation) { end(w) },
			api.ProblemDeadline, []string{"after 30m0s the members had not left the cluster: master (" + lifecycletest.MasterServer + "): EvictionBlocked, Pod shop/web-0"}},
		"an owner that never answers": {func(*lifecycletest.World) {}, func(w *lifecycletest.World, _ api.Operation) { end(w) }, api.ProblemDeadline, []string{"had not left", "it has not reported"}},
		"no END":                      {func(w *lifecycletest.World) { w.ReportLeft(lifecycletest.MasterServer) }, func(w *lifecycletest.World, _ api.Operation) { end(w) }, api.ProblemInterrupted, nil},
		"a cancel":                    {func(*lifecycletest.World) {}, func(w *lifecycletest.World, op api.Operation) { w.MustCancel(op) }, api.ProblemCancelled, nil},
		"a cancel before its END":     {func(w *lifecycletest.World) { w.ReportLeft(lifecycletest.MasterServer) }, func(w *lifecycletest.World, op api.Operation) { w.MustCancel(op) }, api.ProblemCancelled, nil},
		"another operation": {func(w *lifecycletest.World) { w.ReportLeft(lifecycletest.MasterServer) }, func(w *lifecycletest.World, _ api.Operation) {
			w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseStart))
		}, api.ProblemInterrupted, nil},
		"TERMINATE": {func(*lifecycletest.World) {}, func(w *lifecycletest.World, _ api.Operation) {
			w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
		}, api.ProblemSuperseded, nil},
		"a PUT and its deadline": {func(w *lifecycletest.World) {
			w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")}))
		}, func(w *lifecycletest.World, _ api.Operation) { end(w) }, api.ProblemDeadline, []string{"a newer version of the desired state is in force and stays"}},
		"a restart and its deadline": {func(w *lifecycletest.World) { w.Restart() }, func(w *lifecycletest.World, _ api.Operation) { end(w) }, api.ProblemDeadline, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Clustered(t)
			start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer))
			c.before(w)
			w.WantAskedToLeave(lifecycletest.MasterServer, lifecycletest.WorkerServer)
			c.ends(w, start)
			w.WantRefused(w.WantState(start, api.Failed).Error, c.problem, c.says...)
			w.WantAskedToLeave(lifecycletest.MasterServer)
		})
	}
}

func TestAStartMayWaitForVolumesAndMembers(t *testing.T) {
	both := func(w *lifecycletest.World, volumes, members api.Reason) {
		s := w.Status(lifecycletest.MasterServer)
		s.Condition(api.ConditionPersistentVolumesRegistered).Reason = volumes
		s.Condition(api.ConditionClusterMembersLeft).Reason = members
		w.Report(lifecycletest.MasterServer, s)
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
			w := lifecycletest.Clustered(t)
			start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer, lifecycletest.WorkerServer))
			both(w, c.volumes, c.members)
			w.WantState(start, c.state)
		})
	}
}

func TestAForcedStartWaitsForAnAnswerOnly(t *testing.T) {
	answers := func(reason api.Reason) func(*lifecycletest.World) {
		return func(w *lifecycletest.World) { w.ReportStaying(reason) }
	}
	for name, c := range map[string]struct {
		then  func(*lifecycletest.World)
		state api.OperationState
	}{
		"no answer yet":           {func(*lifecycletest.World) {}, api.Processing},
		"on its way":              {answers(api.ReasonConverging), api.Processing},
		"not confirmed":           {answers(api.ReasonWaitingForController), api.Processing},
		"Pods that stay":          {answers(api.ReasonEvictionBlocked), api.Completed},
		"Pods without controller": {answers(api.ReasonUnmanagedPods), api.Completed},
		"etcd without quorum":     {answers(api.ReasonQuorumAtRisk), api.Completed},
		"no cluster that answers": {answers(api.ReasonClusterNotInstalled), api.Completed},
		"all have left":           {func(w *lifecycletest.World) { w.ReportLeft(lifecycletest.MasterServer) }, api.Completed},
		"all masters fall silent": {func(w *lifecycletest.World) {
			w.FallSilent(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster)
		}, api.Completed},
		"one master falls silent": {func(w *lifecycletest.World) { w.FallSilent(lifecycletest.MasterServer) }, api.Processing},
		"its deadline":            {func(w *lifecycletest.World) { w.Clock.Advance(time.Hour); w.Must(w.Lifecycle.Operations.Sweep(w.Ctx)) }, api.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Clustered(t)
			start := w.Post(lifecycletest.Forced(lifecycletest.ScaleInStart(lifecycletest.WorkerServer, lifecycletest.SecondWorker)))
			if !start.Force {
				t.Errorf("the record %+v does not say that it is forced", start)
			}
			if config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.MasterServer); err != nil || !config.ClusterDepartures.Force {
				t.Errorf("the owner is asked for %+v, %v", config.ClusterDepartures, err)
			}
			c.then(w)
			w.WantState(start, c.state)
		})
	}
	t.Run("silent before it", func(t *testing.T) {
		w := lifecycletest.Clustered(t)
		w.FallSilent(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster)
		if start := w.Post(lifecycletest.Forced(lifecycletest.ScaleInStart(lifecycletest.WorkerServer))); start.State != api.Completed {
			t.Errorf("with no master heard of the START is %+v, want it COMPLETED", start)
		}
	})
	t.Run("and volumes that stay", func(t *testing.T) {
		w := lifecycletest.Clustered(t)
		start := w.Post(lifecycletest.Forced(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer, lifecycletest.WorkerServer)))
		w.ReportStaying(api.ReasonEvictionBlocked)
		w.WantState(start, api.Processing)
		s := w.Status(lifecycletest.MasterServer)
		s.Condition(api.ConditionPersistentVolumesRegistered).Reason = api.ReasonAbsent
		s.Condition(api.ConditionClusterMembersLeft).Reason = api.ReasonEvictionBlocked
		w.Report(lifecycletest.MasterServer, s)
		w.WantState(start, api.Completed)
	})
}
