package describe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What each machine goes through on its way to its role is no bad news; the same of one that was in
// its role is.
func TestProgressThatIsNormalIsNoBadNews(t *testing.T) {
	for name, c := range map[string]struct {
		reason  api.Reason
		applied bool
		works   bool
		from    api.ConditionStatus
		want    describe.Tone
		event   describe.Tone
	}{
		"the agent works on it":             {reason: api.ReasonConverging, want: describe.Waiting, event: describe.Waiting},
		"it works on it again":              {reason: api.ReasonConverging, applied: true, from: api.ConditionTrue, want: describe.Waiting, event: describe.Waiting},
		"the volume is not attached yet":    {reason: api.ReasonWaitingForDevice, from: api.ConditionUnknown, want: describe.Waiting, event: describe.Waiting},
		"the cluster is not installed yet":  {reason: api.ReasonClusterNotInstalled, want: describe.Waiting, event: describe.Waiting},
		"its cluster does not answer":       {reason: api.ReasonClusterNotInstalled, applied: true, from: api.ConditionTrue, want: describe.Bad, event: describe.Bad},
		"its volume is gone":                {reason: api.ReasonWaitingForDevice, applied: true, from: api.ConditionTrue, want: describe.Bad, event: describe.Bad},
		"something has failed":              {reason: api.ReasonMountFailed, want: describe.Bad, event: describe.Bad},
		"something has failed, tried again": {reason: api.ReasonMountFailed, works: true, want: describe.Waiting, event: describe.Bad},
		"somebody has to act":               {reason: api.ReasonForeignData, want: describe.Bad, event: describe.Bad},
	} {
		t.Run(name, func(t *testing.T) {
			condition := api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse, Reason: c.reason}
			n := api.Node{State: api.NodeEnrolled, Generation: 2, Digest: "d", Status: &api.NodeStatus{Conditions: []api.Condition{condition}}}
			if c.applied {
				n.Status.AppliedGeneration, n.Status.AppliedDigest = 2, "d"
			}
			if c.works {
				n.Status.Activity = &api.Activity{Condition: condition.Type, StartedAt: time.Now()}
			}
			if got := describe.OfCondition(n, condition); got != c.want {
				t.Errorf("the condition is %d, want %d", got, c.want)
			}
			if got := describe.OfReady(n); got != c.want {
				t.Errorf("that the node is not Ready is %d, want %d", got, c.want)
			}
			event := api.Event{Type: api.HappenedConditionChanged, From: string(c.from), To: string(condition.Status), Reason: c.reason}
			if got := describe.OfEvent(event); got != c.event {
				t.Errorf("the event is %d, want %d", got, c.event)
			}
		})
	}
}

// Each operation has a title and a state in plain words, whatever its type, phase and state.
func TestOperationsAreSaidInPlainWords(t *testing.T) {
	titles := map[string][2]string{
		"INSTANTIATE": {"Instantiate", "Prepare to instantiate"}, "SCALE": {"Scale", "Prepare to scale"}, "SCALE_OUT": {"Scale out", "Prepare to scale out"},
		"SCALE_IN": {"Scale in", "Prepare to scale in"}, "HEAL": {"Heal", "Prepare to heal"}, "TERMINATE": {"Terminate", "Prepare to terminate"},
		"CHANGE_EXT_CONN": {"Change external connectivity", "Prepare to change external connectivity"}, "MODIFY_INFO": {"Modify information", "Prepare to modify information"},
		"CHANGE_VNFPKG": {"Change the VNF package", "Prepare to change the VNF package"},
	}
	for _, kind := range []api.OperationType{api.Instantiate, api.Scale, api.Heal, api.Terminate, api.ChangeExtConn, api.ModifyInfo, api.ChangeVnfPkg} {
		for _, direction := range []api.ScaleType{"", api.ScaleOut, api.ScaleIn} {
			name := kind.Kind(direction)
			for i, phase := range []api.OperationPhase{api.PhaseEnd, api.PhaseStart} {
				if got := describe.OperationTitle(name, phase); got != titles[name][i] {
					t.Errorf("%s %s is called %q, want %q", name, phase, got, titles[name][i])
				}
			}
		}
	}
	waits := []api.OperationTarget{{Ready: true}, {}}
	failed := func(problem string) api.Operation {
		return api.Operation{State: api.Failed, Error: &api.Problem{Type: problem}}
	}
	later := api.Operation{VnfInstanceID: "i", Sequence: 4, Phase: api.PhaseEnd, State: api.Processing}
	for want, o := range map[string]api.Operation{
		"Waiting for nodes":              {State: api.Processing, Targets: waits, Phase: api.PhaseEnd},
		"Waiting for nodes to leave":     {State: api.Processing, Targets: waits, Phase: api.PhaseStart, Leaving: []api.LeavingMember{{}}},
		"In progress":                    {State: api.Processing, Targets: waits[:1], Phase: api.PhaseEnd},
		"Completed, waiting for its END": {State: api.Completed, Phase: api.PhaseStart, Operation: api.Heal, VnfInstanceID: "i", Sequence: 5},
		"Completed":                      {State: api.Completed, Phase: api.PhaseStart, Operation: api.Heal, VnfInstanceID: "i", Sequence: 3},
		"Failed":                         failed(api.ProblemTargetsFailed), "Failed at its deadline": failed(api.ProblemDeadline), "Cancelled": failed(api.ProblemCancelled),
		"Superseded": failed(api.ProblemSuperseded), "Interrupted": failed(api.ProblemInterrupted),
	} {
		if got := describe.OperationProgress(o, []api.Operation{o, later}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, o := range map[string]api.Operation{"an END": {State: api.Completed, Phase: api.PhaseEnd}, "a START of a scale-in": {State: api.Completed, Phase: api.PhaseStart, Operation: api.Scale, Type: api.ScaleIn}} {
		if got := describe.OperationProgress(o, []api.Operation{o}); got != "Completed" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// A heal, a scale-in and a TERMINATE revoke identities.
func TestARevokedNodeIsNoBadNews(t *testing.T) {
	n := api.Node{State: api.NodeRevoked}
	for what, tone := range map[string]describe.Tone{
		"its state": describe.OfNode(n.State), "that it is not Ready": describe.OfReady(n), "the event": describe.OfEvent(api.Event{Type: api.HappenedRevoked}),
	} {
		if tone != describe.Plain {
			t.Errorf("%s is %d, want %d", what, tone, describe.Plain)
		}
	}
}

// A node that does not call is Lost, whatever it said last.
func TestALostNodeSaysThatItDoesNotCall(t *testing.T) {
	for _, said := range []*api.NodeStatus{nil, {}, {Activity: &api.Activity{Summary: "restarting containerd"}},
		{Conditions: []api.Condition{{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse, Reason: api.ReasonNotMounted}}}} {
		if why := describe.Why(api.Node{State: api.NodeLost, Status: said}); !strings.HasPrefix(why, "it has not called for three poll intervals") {
			t.Errorf("with the status %+v: %q", said, why)
		}
	}
}

// Why names what keeps a node from being Ready: of a condition that is only not reported, why its section is
// withheld; of a revoked node nothing that it said before.
func TestWhySaysWhatKeepsANodeFromBeingReady(t *testing.T) {
	missing := api.Condition{Type: api.ConditionPersistentVolumesRegistered, Status: api.ConditionUnknown, Reason: api.ReasonNotReported}
	failed := api.Condition{Type: api.ConditionRegistriesConnected, Status: api.ConditionFalse, Reason: api.ReasonUnreachable, Message: "no route to host"}
	waits := []api.Withheld{{Section: api.SectionPersistentVolumes, Reason: api.ReasonWaitingForExports, Message: "of storage_server"}}
	for name, c := range map[string]struct {
		node api.Node
		want string
	}{
		"not reported":                    {api.Node{State: api.NodeEnrolled, Status: &api.NodeStatus{Conditions: []api.Condition{missing}}}, "NotReported"},
		"not reported, as it is withheld": {api.Node{State: api.NodeEnrolled, Withheld: waits, Status: &api.NodeStatus{Conditions: []api.Condition{missing}}}, "WaitingForExports: of storage_server"},
		"something has failed":            {api.Node{State: api.NodeEnrolled, Withheld: waits, Status: &api.NodeStatus{Conditions: []api.Condition{missing, failed}}}, "Unreachable: no route to host"},
		"revoked":                         {api.Node{State: api.NodeRevoked, Withheld: waits, Status: &api.NodeStatus{Conditions: []api.Condition{failed}, Activity: &api.Activity{Summary: "connecting"}}}, "its identity is revoked; `hitchctl node reenroll` lets it enroll again"},
	} {
		if got := describe.Why(c.node); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A cause is shown before what follows from it: the conditions come as the agent works on them.
func TestConditionsAreInTheOrderOfTheWork(t *testing.T) {
	var n api.Node
	n.Status = &api.NodeStatus{}
	want := append(slices.Clone(api.ConditionTypes()), "Another", "OfALaterRelease", api.ConditionReady)
	for _, kind := range slices.Sorted(slices.Values(want)) {
		n.Status.Conditions = append(n.Status.Conditions, api.Condition{Type: kind})
	}
	var got []string
	for _, c := range describe.Conditions(n) {
		got = append(got, c.Type)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
