package converge

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// ClusterScoped marks a step whose actions change more than this node. They run only
// for a document that the controller has confirmed on the present connection
// (Options.Confirmed), never for a stored one.
type ClusterScoped interface{ ClusterScoped() }

// Engine runs steps in their order.
type Engine struct {
	steps []Step
	// Now is the clock of transition times.
	Now func() time.Time
	// Log gets what does not belong in a condition, such as the stack of a panic.
	Log *slog.Logger
}

// New is an engine of these steps. Two steps for one condition are a programming
// error and panic.
func New(steps ...Step) *Engine {
	seen := map[string]bool{api.ConditionReady: true}
	for _, s := range steps {
		if seen[s.Condition()] {
			panic("converge: two steps report the condition " + s.Condition())
		}
		seen[s.Condition()] = true
	}
	return &Engine{steps: steps, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// Options of one pass.
type Options struct {
	// DryRun plans and does nothing.
	DryRun bool
	// Confirmed says that the controller sent or confirmed the document on the present
	// connection.
	Confirmed bool
	// Previous are the conditions of the previous pass; one whose status is the same
	// keeps its lastTransitionTime.
	Previous []api.Condition
	// Observe is called before and after every action; may be nil.
	Observe func(Event)
	// Grace is how long the current action may continue after ctx is done: a killed
	// mkfs leaves a disk that has to be formatted again. 0 = no limit.
	Grace time.Duration
}

// Event is an action that starts, or that has Finished.
type Event struct {
	Condition string
	Summary   string
	Finished  bool
	// Took and Err are set when it has finished.
	Took time.Duration
	Err  error
}

// Converge makes one pass: every step plans and runs its actions. If any action ran,
// every step plans again, and that second plan decides its condition. A step that
// fails stops no other. When ctx is done, the current action finishes, no other one
// starts, and the report says so.
func (e *Engine) Converge(ctx context.Context, doc *api.NodeConfig, o Options) Report {
	p := pass{Engine: e, doc: doc, o: o, results: make([]Result, len(e.steps))}
	for i, s := range e.steps {
		p.results[i].Condition = s.Condition()
		p.first(ctx, s, &p.results[i])
	}
	if p.changed {
		for i, s := range e.steps {
			p.again(ctx, s, &p.results[i])
		}
	}
	p.answer()
	return p.report()
}

// answer reports every condition that the document calls for: a section that no step
// handles must not count as converged.
func (p *pass) answer() {
	for _, called := range p.doc.ConditionTypes() {
		err := Fail(api.ReasonInvalidDocument, "the configuration has a section that calls for %s, which this agent does not support; upgrade the agent", called)
		i := slices.IndexFunc(p.results, func(r Result) bool { return r.Condition == called })
		switch {
		case i < 0:
			p.results = append(p.results, Result{Condition: called, Err: err})
		case p.results[i].HandsOff:
			p.results[i].HandsOff, p.results[i].Err = false, err
		}
	}
}

// pass is the state of one Converge.
type pass struct {
	*Engine
	doc     *api.NodeConfig
	o       Options
	results []Result
	changed bool
}

// first plans a step and does what it planned.
func (p *pass) first(ctx context.Context, s Step, r *Result) {
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		return
	}
	p.plan(ctx, s, r)
	r.Planned = r.Left
	if p.withhold(s, r) || p.o.DryRun {
		return
	}
	p.do(ctx, r)
}

// again plans a step a second time. A failed action stays the reason unless the
// second plan is empty.
func (p *pass) again(ctx context.Context, s Step, r *Result) {
	if r.Interrupted = r.Interrupted || ctx.Err() != nil; r.Interrupted {
		return
	}
	failed := r.failed
	p.plan(ctx, s, r)
	if p.withhold(s, r) {
		return
	}
	if r.Err != nil || len(r.Left) > 0 {
		r.Err = join(failed, r.Err)
	}
}

// withhold stops the actions of a cluster-scoped step, or of a plan with such an action, if the
// controller has not confirmed the document.
func (p *pass) withhold(s Step, r *Result) bool {
	_, cluster := s.(ClusterScoped)
	scoped := func(a Action) bool { return cluster || a.ClusterScoped }
	if p.o.Confirmed || !slices.ContainsFunc(r.Left, scoped) {
		return false
	}
	r.Err = Wait(api.ReasonWaitingForController, "the controller has not confirmed the configuration on the present connection; not done: %s", summaries(r.Left))
	return true
}

// plan runs the step's Plan; a panic in it is an error like any other.
func (p *pass) plan(ctx context.Context, s Step, r *Result) {
	var plan Plan
	r.Err = p.guard(s.Condition(), "planning", func() (err error) {
		plan, err = s.Plan(ctx, p.doc)
		return err
	})
	r.HandsOff = plan.HandsOff && r.Err == nil
	r.Left, r.reason, r.message = plan.Actions, plan.Reason, plan.Message
	r.bound, r.cluster, r.control, r.kubelet = plan.BoundPersistentVolumes, plan.Cluster, plan.ControlPlane, plan.KubeletVersion
}

// do runs the actions; after a failure it skips the rest of the group.
func (p *pass) do(ctx context.Context, r *Result) {
	failed := map[string]bool{}
	for _, a := range r.Planned {
		if failed[a.Group] {
			continue
		}
		if r.Interrupted = ctx.Err() != nil; r.Interrupted {
			return
		}
		p.changed = true
		if err := p.act(ctx, r.Condition, a); err != nil {
			failed[a.Group] = true
			r.failed = join(r.failed, err)
			continue
		}
		r.Done = append(r.Done, a.Summary)
	}
}

// act runs one action and calls the observer.
func (p *pass) act(ctx context.Context, condition string, a Action) error {
	observe := p.o.Observe
	if observe == nil {
		observe = func(Event) {}
	}
	ctx, release := graceful(ctx, p.o.Grace)
	defer release()
	observe(Event{Condition: condition, Summary: a.Summary})
	begun := p.Now()
	err := p.guard(condition, a.Summary, func() error { return a.Do(ctx) })
	observe(Event{Condition: condition, Summary: a.Summary, Finished: true, Took: p.Now().Sub(begun), Err: err})
	return err
}

// guard turns a panic into an error: a bug in one step must not stop the others.
func (p *pass) guard(condition, doing string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.Log.Error("panic", "condition", condition, "activity", doing, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: a bug in the agent: panic: %v", doing, v)
		}
	}()
	return f()
}

// graceful returns ctx with its end delayed by grace; it never ends if grace is 0.
func graceful(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if grace <= 0 {
		return own, cancel
	}
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(own, func() { timer.Stop() })
	})
	return own, func() { stop(); cancel() }
}
