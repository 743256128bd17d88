package breaks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Outcome is the outcome of a break.
type Outcome string

// The outcomes. Only Caught is good.
const (
	Caught Outcome = "caught"
	// Survived: the test passes with the break.
	Survived Outcome = "SURVIVED"
	// NotRun: nothing is known; the detail says why.
	NotRun Outcome = "NOT RUN"
)

// Result is the result of one break.
type Result struct {
	Break
	Outcome Outcome
	Seconds float64
	// Detail is for people.
	Detail string
}

// Run makes breaks one after the other in a copy of the checkout, runs their tests, and
// passes each result to each. A test that several breaks share is run once without a break.
// One run at a time in a checkout. Its error means that there was nothing to run them on.
func Run(ctx context.Context, checkout string, all []Break, each func(Result)) (err error) {
	t, err := copyTree(ctx, checkout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.remove()) }()
	whole := map[string]string{} // by test: why it fails without a break
	for _, b := range all {
		began := time.Now()
		key := fmt.Sprint(b.Test, b.Test.Env, b.Test.Needs)
		why, known := whole[key]
		if !known {
			if what, text := t.run(ctx, b.Test); what != passed {
				why = "without the break: " + text
			}
			whole[key] = why
		}
		r := Result{Break: b, Outcome: NotRun, Detail: why}
		if why == "" {
			r.Outcome, r.Detail = t.try(ctx, b)
		}
		r.Seconds = time.Since(began).Seconds()
		each(r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// try runs the test of a break with the break.
func (t *tree) try(ctx context.Context, b Break) (o Outcome, detail string) {
	takeBack, err := t.make(b)
	if err != nil {
		return NotRun, err.Error()
	}
	what, text := t.run(ctx, b.Test)
	if err := takeBack(); err != nil {
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
