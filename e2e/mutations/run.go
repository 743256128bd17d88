package mutations

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Outcome is the outcome of a mutation.
type Outcome string

// The outcomes. Only Caught is good.
const (
	Caught Outcome = "caught"
	// Survived: the test passes with the mutation.
	Survived Outcome = "SURVIVED"
	// NotRun: nothing is known; the detail says why.
	NotRun Outcome = "NOT RUN"
)

// Result is the result of one mutation.
type Result struct {
	Mutation
	Outcome Outcome
	Seconds float64
	// Detail is for people.
	Detail string
}

// Run runs mutations one after the other on a copy of the checkout and passes each result
// to each. If several mutations share a test, it is run once without a mutation. One run
// at a time in a checkout. Its error means that there was nothing to run them on.
func Run(ctx context.Context, checkout string, all []Mutation, each func(Result)) (err error) {
	t, err := copyTree(ctx, checkout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.remove()) }()
	whole := map[string]string{} // by test: why it fails without a mutation
	for _, m := range all {
		began := time.Now()
		key := fmt.Sprint(m.Test, m.Test.Env, m.Test.Needs)
		why, known := whole[key]
		if !known {
			if what, text := t.run(ctx, m.Test); what != passed {
				why = "without the mutation: " + text
			}
			whole[key] = why
		}
		r := Result{Mutation: m, Outcome: NotRun, Detail: why}
		if why == "" {
			r.Outcome, r.Detail = t.try(ctx, m)
		}
		r.Seconds = time.Since(began).Seconds()
		each(r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// try runs the test of a mutation with the mutation.
func (t *tree) try(ctx context.Context, m Mutation) (o Outcome, detail string) {
	if err := t.apply(ctx, m); err != nil {
		return NotRun, err.Error()
	}
	what, text := t.run(ctx, m.Test)
	if err := t.takeBack(context.WithoutCancel(ctx), m); err != nil {
		return NotRun, err.Error()
	}
	switch what {
	case passed:
		return Survived, text
	case failed:
		return Caught, text
	case broken:
	}
	return NotRun, text
}
