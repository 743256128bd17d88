package command

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// heatWithin is how long the command waits for Heat if no --deadline is given.
	heatWithin = 30 * time.Minute
	// heatPause is between two attempts if the controller names no pause.
	heatPause = 5 * time.Second
)

// post starts the operation. With --wait it first waits until Heat is done with the
// stack: the controller records no END before that, so it is posted again and again.
func (a *app) post(ctx context.Context, c *client.Controller, id string, body api.OperationRequest, f operateFlags) (*api.Operation, error) {
	started := a.now()
	o, pause, err := attempt(ctx, c, id, body)
	given := body.Topology != nil && body.Topology.StackStatus != "" // in the request; it will not change
	if !f.wait || given || problemType(err) != api.ProblemStackInProgress {
		return o, err
	}
	// An answer that is lost must not start it twice. A statement with a key would not be taken by an END that waits.
	if body.IdempotencyKey == "" && !body.OldServerIsOff {
		body.IdempotencyKey = uuid.NewString()
	}
	limit := f.deadline
	if limit == 0 {
		limit = heatWithin
	}
	again := func(ctx context.Context) (*api.Operation, time.Duration, error) {
		if f.deadline > 0 { // what Heat has taken of it is gone
			left := f.deadline - a.now().Sub(started)
			body.DeadlineSeconds = max(1, int(left/time.Second))
		}
		return attempt(ctx, c, id, body)
	}
	w := waiter{
		app: a, display: a.heatDisplay(f.output), timeout: limit,
		title: titleOf(api.Operation{Operation: body.Operation, Type: body.Type, Phase: api.PhaseEnd, VnfInstanceID: id}) + ", when Heat is done",
		watch: []watcher{postWhenDone(again, err, pause), watchNodes(c, id)},
		shown: func(s waitState) []api.Node { return s.nodes },
		done:  func(s waitState) (bool, error) { return s.operation != nil, nil },
		result: func(_ waitState, took time.Duration) string {
			return "Heat is done, after " + describe.Age(took)
		},
	}
	s, err := w.run(ctx)
	if errors.Is(err, context.Canceled) {
		a.printLine("interrupted", screen.Waiting, "Heat goes on, and no operation is recorded yet; repeat the command to wait again")
	}
	return s.operation, err
}

// heatDisplay: Heat's progress is for people. Who reads JSON gets the operation.
func (a *app) heatDisplay(o output) *screen.Screen {
	if o.forPrograms() {
		return screen.Plain(io.Discard, 0)
	}
	return a.out
}

// postWhenDone posts again while Heat changes the stack, and if the controller or
// its cloud does not answer meanwhile.
func postWhenDone(again func(context.Context) (*api.Operation, time.Duration, error), err error, pause time.Duration) watcher {
	return func(ctx context.Context, send func(func(*waitState))) error {
		for {
			text := err.Error()
			var problem *api.Problem
			if errors.As(err, &problem) {
				text = problem.Detail
			}
			send(func(s *waitState) { s.heat = text })
			if err := sleep.For(ctx, pause, nil); err != nil {
				return err
			}
			var o *api.Operation
			if o, pause, err = again(ctx); err == nil {
				send(func(s *waitState) { s.operation = o })
				<-ctx.Done()
				return ctx.Err()
			}
			status := client.Status(err)
			passes := status == 0 || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError ||
				problemType(err) == api.ProblemStackInProgress
			if !passes {
				return err
			}
		}
	}
}

// attempt posts once, and says how long the controller wants another one to wait.
func attempt(ctx context.Context, c *client.Controller, id string, body api.OperationRequest) (*api.Operation, time.Duration, error) {
	pause := heatPause
	resp, err := c.PostOperation(ctx, id, nil, body) //nolint:bodyclose // client.Read closes it
	if err == nil {
		if seconds, wrong := strconv.Atoi(resp.Header.Get("Retry-After")); wrong == nil && seconds > 0 {
			pause = time.Duration(seconds) * time.Second
		}
	}
	o, err := client.Read[api.Operation](resp, err)
	return o, pause, err
}

// problemType is the type of the controller's problem, "" for any other error.
func problemType(err error) string {
	var problem *api.Problem
	if errors.As(err, &problem) {
		return problem.Type
	}
	return ""
}
