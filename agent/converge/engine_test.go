package converge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// thing is a step that wants parts of a machine to exist.
type thing struct {
	condition string
	wants     []string
	machine   map[string]bool
	// broken names what happens when a part is made; "" = it is made.
	broken map[string]error
	// inert parts are made without an error, and yet are not there afterwards.
	inert   map[string]bool
	planned int
	planErr error
	handOff bool
}

func (s *thing) Condition() string { return s.condition }

func (s *thing) Plan(_ context.Context, _ *api.NodeConfig) (converge.Plan, error) {
	s.planned++
	plan := converge.Plan{HandsOff: s.handOff, Reason: api.ReasonMounted, Message: "all there"}
	if s.handOff {
		return plan, s.planErr
	}
	for _, want := range s.wants {
		if s.machine[want] {
			continue
		}
		group, _, _ := strings.Cut(want, "/")
		plan.Actions = append(plan.Actions, converge.Action{Summary: "make " + want, Group: group, Do: func(context.Context) error {
			if err := s.broken[want]; err != nil {
				return err
			}
			s.machine[want] = !s.inert[want]
			return nil
		}})
	}
	return plan, s.planErr
}

func step(condition string, wants ...string) *thing {
	return &thing{condition: condition, wants: wants, machine: map[string]bool{}, broken: map[string]error{}, inert: map[string]bool{}}
}

var doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 7, Role: api.RoleStorage}

func pass(t *testing.T, o converge.Options, steps ...converge.Step) converge.Report {
	t.Helper()
	return converge.New(steps...).Converge(t.Context(), doc, o)
}

// conditions are the report's, one line each.
func conditions(r converge.Report) []string {
	var lines []string
	for _, c := range r.Conditions {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
	}
	return lines
}

func expect(t *testing.T, r converge.Report, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, conditions(r)); diff != "" {
		t.Error(diff)
	}
}

func TestConvergesAndThenPlansNothing(t *testing.T) {
	a, b := step("A", "x", "y"), step("B", "z")
	r := pass(t, converge.Options{}, a, b)
	expect(t, r, "A=True Mounted all there", "B=True Mounted all there", "Ready=True Ready")
	if !r.Converged() || !r.Changed || len(r.Results[0].Done) != 2 {
		t.Errorf("got %+v", r)
	}
	a.planned, b.planned = 0, 0
	r = pass(t, converge.Options{}, a, b)
	if !r.Converged() || r.Changed || a.planned != 1 || b.planned != 1 {
		t.Errorf("a converged node: changed %v, planned %d and %d times; want no change and one plan of each", r.Changed, a.planned, b.planned)
	}
}

func TestSecondPlanThatIsNotEmptySaysWhatIsLeft(t *testing.T) {
	a := step("A", "x", "y")
	a.inert["y"] = true
	r := pass(t, converge.Options{}, a)
	expect(t, r, "A=False Converging left to do: make y", "Ready=False NotReady A is False (Converging)")
	if r.Converged() || r.FailedCondition != "" {
		t.Errorf("got %+v", r)
	}
}

func TestErrorsAreConditions(t *testing.T) {
	cases := map[string]struct {
		err    error
		want   string
		failed string
	}{
		"waiting":             {converge.Wait(api.ReasonWaitingForDevice, "no disk v"), "A=False WaitingForDevice no disk v", ""},
		"waiting, unknown":    {converge.Wait(api.ReasonUnreadable, "sector 5"), "A=Unknown Unreadable sector 5", ""},
		"waiting, wrapped":    {fmt.Errorf("volume v: %w", converge.Wait(api.ReasonNoPermit, "no")), "A=False NoPermit volume v: NoPermit: no", ""},
		"terminal":            {converge.Fail(api.ReasonForeignData, "xfs"), "A=False ForeignData xfs", "A"},
		"unexpected":          {errors.New("exit status 3"), "A=Unknown InternalError exit status 3", ""},
		"terminal and others": {errors.Join(errors.New("odd"), converge.Wait(api.ReasonNoPermit, "no"), converge.Fail(api.ReasonForeignData, "xfs")), "A=False ForeignData odd; no; xfs", "A"},
		"waiting and odd":     {errors.Join(converge.Wait(api.ReasonNoPermit, "no"), errors.New("odd")), "A=False NoPermit no; odd", ""},
	}
	for name, c := range cases {
		t.Run("planning/"+name, func(t *testing.T) {
			a, b := step("A"), step("B", "z")
			a.planErr = c.err
			r := pass(t, converge.Options{}, a, b)
			if got := conditions(r); got[0] != c.want || got[1] != "B=True Mounted all there" {
				t.Errorf("got %q", got)
			}
			if r.FailedCondition != c.failed || r.Converged() {
				t.Errorf("failed condition %q, converged %v", r.FailedCondition, r.Converged())
			}
		})
		t.Run("doing/"+name, func(t *testing.T) {
			a, b := step("A", "x"), step("B", "z")
			a.broken["x"] = c.err
			r := pass(t, converge.Options{}, a, b)
			if got := conditions(r); got[0] != c.want || got[1] != "B=True Mounted all there" {
				t.Errorf("got %q", got)
			}
			if r.FailedCondition != c.failed {
				t.Errorf("failed condition %q", r.FailedCondition)
			}
		})
	}
}

func TestFailureLeavesOutTheRestOfItsGroupOnly(t *testing.T) {
	a := step("A", "v1/format", "v1/mount", "v2/format", "v2/mount")
	a.broken["v1/format"] = converge.Wait(api.ReasonNoPermit, "v1: no permit")
	r := pass(t, converge.Options{}, a)
	expect(t, r, "A=False NoPermit v1: no permit", "Ready=False NotReady A is False (NoPermit)")
	if diff := cmp.Diff([]string{"make v2/format", "make v2/mount"}, r.Results[0].Done); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCanBeDoneIsDoneBesideWhatCannot(t *testing.T) {
	a := step("A", "v2/mount")
	a.planErr = errors.Join(errors.New("v1: odd"), converge.Wait(api.ReasonWaitingForDevice, "no disk v3"))
	r := pass(t, converge.Options{}, a)
	if !a.machine["v2/mount"] {
		t.Error("v2 is not mounted although nothing is wrong with it")
	}
	expect(t, r, "A=False WaitingForDevice v1: odd; no disk v3", "Ready=False NotReady A is False (WaitingForDevice)")
}

func TestFailureThatMendedItselfIsNone(t *testing.T) {
	a, b := step("A", "x", "y"), step("B", "z")
	a.broken["x"] = errors.New("timed out, and yet")
	observe := func(e converge.Event) {
		if e.Summary == "make z" {
			a.machine["x"], a.machine["y"] = true, true
		}
	}
	r := pass(t, converge.Options{Observe: observe}, a, b)
	if c := r.Condition("A"); c.Status != api.ConditionTrue {
		t.Errorf("got %+v, want True: the second plan is empty", c)
	}
}

func TestPanicsAreInternalErrors(t *testing.T) {
	planning := panics{"P", true}
	doing := panics{"D", false}
	after := step("B", "z")
	r := pass(t, converge.Options{}, planning, doing, after)
	expect(t, r,
		"P=Unknown InternalError planning: a bug in the agent: panic: oh",
		"D=Unknown InternalError leap: a bug in the agent: panic: oh",
		"B=True Mounted all there",
		"Ready=False NotReady P is Unknown (InternalError), D is Unknown (InternalError)")
}

type panics struct {
	condition string
	planning  bool
}

func (p panics) Condition() string { return p.condition }

func (p panics) Plan(context.Context, *api.NodeConfig) (converge.Plan, error) {
	if p.planning {
		panic("oh")
	}
	return converge.Plan{Actions: []converge.Action{{Summary: "leap", Do: func(context.Context) error { panic("oh") }}}}, nil
}

func TestHandsOffReportsNothing(t *testing.T) {
	a, b := step("A", "x"), step("B", "z")
	a.handOff = true
	r := pass(t, converge.Options{}, a, b)
	expect(t, r, "B=True Mounted all there", "Ready=True Ready")
	a.planErr = errors.New("odd")
	a.planned = 0
	if r = pass(t, converge.Options{}, a); r.Condition("A") == nil {
		t.Error("an error of a step that is hands off is not reported")
	}
}

func TestDryRunDoesNothing(t *testing.T) {
	a := step("A", "x", "y")
	r := pass(t, converge.Options{DryRun: true}, a)
	if len(a.machine) != 0 || r.Changed || a.planned != 1 {
		t.Errorf("machine %v, changed %v", a.machine, r.Changed)
	}
	if got := len(r.Results[0].Planned); got != 2 {
		t.Errorf("got %d planned actions, want 2", got)
	}
	expect(t, r, "A=False Converging left to do: make x; make y", "Ready=False NotReady A is False (Converging)")
}

func TestTransitionTimeIsThatOfTheLastChangeOfStatus(t *testing.T) {
	a := step("A", "x")
	a.broken["x"] = converge.Wait(api.ReasonNoPermit, "no")
	engine := converge.New(a)
	at := func(minute int) func() time.Time {
		return func() time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	}
	engine.Now = at(1)
	first := engine.Converge(t.Context(), doc, converge.Options{})
	engine.Now = at(2)
	a.broken["x"] = converge.Wait(api.ReasonWaitingForDevice, "gone")
	second := engine.Converge(t.Context(), doc, converge.Options{Previous: first.Conditions})
	if c := second.Condition("A"); !c.LastTransitionTime.Equal(at(1)()) || c.Reason != api.ReasonWaitingForDevice {
		t.Errorf("False stays False: got %+v, want the time of the first pass with the new reason", c)
	}
	engine.Now = at(3)
	a.broken = nil
	third := engine.Converge(t.Context(), doc, converge.Options{Previous: second.Conditions})
	if c := third.Condition("A"); !c.LastTransitionTime.Equal(at(3)()) {
		t.Errorf("False becomes True: got %+v", c)
	}
}

func TestStopsBetweenActions(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	a, b := step("A", "x", "y"), step("B", "z")
	var actionErr error
	observe := func(e converge.Event) {
		if e.Summary == "make x" && !e.Finished {
			stop()
		}
		if e.Finished {
			actionErr = e.Err
		}
	}
	r := converge.New(a, b).Converge(ctx, doc, converge.Options{Observe: observe})
	if !a.machine["x"] || actionErr != nil {
		t.Error("the action under way was not finished")
	}
	if a.machine["y"] || b.machine["z"] || !r.Interrupted || r.Converged() {
		t.Errorf("went on after the stop: %v %v, interrupted %v", a.machine, b.machine, r.Interrupted)
	}
}

func TestActionUnderWayIsCutOffAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		begun := time.Now()
		var took time.Duration
		hang := stuck{func(ctx context.Context) error { <-ctx.Done(); took = time.Since(begun); return ctx.Err() }}
		converge.New(hang).Converge(ctx, doc, converge.Options{Grace: 80 * time.Second})
		if took != 81*time.Second {
			t.Errorf("ended after %v, want 81s", took)
		}
	})
}

type stuck struct{ do func(context.Context) error }

func (stuck) Condition() string { return "Stuck" }

func (s stuck) Plan(context.Context, *api.NodeConfig) (converge.Plan, error) {
	return converge.Plan{Actions: []converge.Action{{Summary: "hang", Do: s.do}}}, nil
}

// register is a step that changes the cluster.
type register struct{ *thing }

func (register) ClusterScoped() {}

func TestClusterIsChangedOnlyUnderAConfirmedDocument(t *testing.T) {
	a := register{step("A", "pv")}
	r := pass(t, converge.Options{}, a, step("B", "z"))
	if a.machine["pv"] {
		t.Error("changed the cluster under a document from disk")
	}
	if c := r.Condition("A"); c.Status != api.ConditionUnknown || c.Reason != api.ReasonWaitingForController {
		t.Errorf("got %+v", c)
	}
	r = pass(t, converge.Options{Confirmed: true}, a)
	if c := r.Condition("A"); c.Status != api.ConditionTrue {
		t.Errorf("got %+v", c)
	}
	if r = pass(t, converge.Options{}, a); !r.Converged() {
		t.Error("a converged cluster needs no confirmation")
	}
}

func TestObserverSeesEveryAction(t *testing.T) {
	a := step("A", "v1/x", "v2/y")
	a.broken["v1/x"] = errors.New("no")
	var seen []string
	pass(t, converge.Options{Observe: func(e converge.Event) {
		seen = append(seen, fmt.Sprint(e.Condition, " ", e.Summary, " ", e.Finished, " ", e.Err))
	}}, a)
	want := []string{"A make v1/x false <nil>", "A make v1/x true no", "A make v2/y false <nil>", "A make v2/y true <nil>"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q", seen)
	}
}

func TestOneConditionHasOneStep(t *testing.T) {
	for _, steps := range [][]converge.Step{{step("A"), step("A")}, {step(api.ConditionReady)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			converge.New(steps...)
		}()
	}
}
