package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/controller/ui"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// retryAfter is how many seconds a client should let pass after a problem that
// time may fix, if the answer does not say so already.
var retryAfter = map[string]int{
	wire.ProblemTooMany:           10,
	wire.ProblemUnavailable:       5,
	wire.ProblemServerNotExpected: 15,
	wire.ProblemNonceRequired:     2,
	wire.ProblemStackInProgress:   5,
	wire.ProblemCloudError:        10,
	// A passing state of the controller: agents ask again at the pace of a poll.
	wire.ProblemRestoreUnconfirmed: 30,
}

// answerError answers what a handler returned, as problem details (RFC 9457); the status page has
// pages for that.
func (s *Handler) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return // the connection is beyond repair; observe has logged it
	}
	p := problemOf(err, c.Request().Context())
	header := c.Response().Header()
	var exceeded *ratelimit.Exceeded
	if errors.As(err, &exceeded) {
		header.Set("Retry-After", strconv.Itoa(int(exceeded.RetryAfter.Seconds())))
	}
	var refused *enrollment.Refusal
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
	}
	if seconds, ok := retryAfter[p.Type]; ok && header.Get("Retry-After") == "" {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	p.Instance = c.Request().URL.Path
	if ui.Below(p.Instance) {
		if err := s.UI.Refuse(c.Response(), c.Request(), p); err != nil {
			s.Log.ErrorContext(c.Request().Context(), "an error has no page", "error", err)
		}
		return
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="nodehitch"`)
	}
	header.Set("Content-Type", "application/problem+json")
	c.Response().WriteHeader(p.Status)
	encoder := json.NewEncoder(c.Response())
	encoder.SetEscapeHTML(false) // it is read by people, and never as HTML
	if err := encoder.Encode(p); err != nil {
		s.Log.DebugContext(c.Request().Context(), "the client did not take the whole answer", "error", err)
	}
}

// problemOf is a copy of the problem that err is. For any other error, the answer only says
// where an operator finds it, and nothing about the controller's internals.
func problemOf(err error, ctx context.Context) wire.Problem {
	var p *wire.Problem
	var h *echo.HTTPError
	switch {
	case errors.As(err, &p):
		return *p
	case errors.As(err, &h):
		return httpProblem(h)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return *wire.NewProblem(wire.ProblemUnavailable, "the client gave the request up")
	}
	return *wire.NewProblem(wire.ProblemInternal, "the controller's log has more under the request id "+callOf(ctx).id)
}

// httpProblem is what the router says, and the binding of parameters.
func httpProblem(h *echo.HTTPError) wire.Problem {
	switch h.Code {
	case http.StatusNotFound:
		return *wire.NewProblem(wire.ProblemNotFound, "there is no such path; GET /v1/openapi.yaml describes the API")
	case http.StatusMethodNotAllowed:
		return *wire.NewProblem(wire.ProblemMethodNotAllowed, "this path does not accept the method; the header Allow lists the methods that it accepts")
	}
	detail, _ := h.Message.(string)
	return *wire.NewProblem(wire.ProblemInvalid, detail)
}
