package httpapi

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// How often a node may report. An agent that converges reports some ten changes in a few
// seconds, and then none for hours.
const (
	statusEvery, statusBurst = 500 * time.Millisecond, 60

	// maxNodes bounds the memory of the buckets. The node unheard of for longest is
	// forgotten, which is never one that floods.
	maxNodes = 4096
)

// limitStatuses refuses the statuses of a node that sends too many, before the body is read. It
// answers after a moment: a node has few connections, and each of them then costs about
// one request a second, also if the node does not wait.
func (s *Handler) limitStatuses(operation string) check {
	if operation != "putNodeStatus" {
		return func(echo.Context) error { return nil }
	}
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		node := callOf(ctx).nodeID
		refusal := s.statuses.Take(node, s.Now())
		if refusal == nil {
			return nil
		}
		if refusal.First {
			s.Log.WarnContext(ctx, "a node sends statuses too often, some are refused", "node", node, "burst", statusBurst, "every", statusEvery)
		}
		_ = sleep.For(ctx, s.Times.Refusal, s.draining.Done()) // the refusal is the answer in any case
		return &ratelimit.Exceeded{RetryAfter: refusal.Wait, Problem: wire.NewProblem(wire.ProblemTooMany,
			"this node sends statuses too often; wait for the seconds in Retry-After, then send the newest")}
	}
}
