package httpapi

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
)

// Times bound how long a connection may be used.
type Times struct {
	// Body is how long a JSON body may take to arrive.
	Body time.Duration
	// Answer is how long an answer may take to leave, after the time for which the
	// request may be held.
	Answer time.Duration
	// Stall is how long a stream of a file may stand still.
	Stall time.Duration
	// Refusal is how long a node waits for the answer that it is too fast.
	Refusal time.Duration
	// List is how long a list waits until another one of the same caller has been sent.
	List time.Duration
}

var usualTimes = Times{Body: 30 * time.Second, Answer: 30 * time.Second, Stall: 60 * time.Second, Refusal: time.Second, List: 10 * time.Second}

// cloudWait is how long a cloud may be asked in the course of a request: what an observation of
// a stack takes at most, and some.
const cloudWait = 150 * time.Second

// limitTimes bounds how long the connection may be used. The server itself sets no
// timeouts beyond the header's, which a long poll or a large file would not
// survive.
func (s *Handler) limitTimes(op endpoint) check {
	hold := time.Duration(0)
	stream := false
	if op.has("query", "wait") {
		hold = maxWait
	}
	switch op.id {
	case "getNodeConfig":
		hold = time.Duration(s.PollSeconds) * time.Second * 11 / 10
	case "putInstance", "planInstance", "postOperation", "enroll":
		hold = cloudWait
	case "putFile", "getFile", "getNodeFile", "getAgent", "getBackup":
		stream = true
	}
	return s.bound(hold, stream)
}

// bound bounds a request that is held for no longer than this; a stream may last for as long as
// it moves.
func (s *Handler) bound(hold time.Duration, stream bool) check {
	return func(c echo.Context) error {
		control := s.setDeadlines(c, hold)
		if stream {
			c.Request().Body = connlimit.MovingBody(c.Request().Body, control, s.Times.Stall)
			c.Response().Writer = connlimit.MovingAnswer(c.Response().Writer, control, s.Times.Stall)
		}
		return nil
	}
}

// setDeadlines bounds how long a request that is held for no longer than this may
// take to arrive, and its answer to leave. It goes for requests that no route takes,
// too: the server reads what they announce, for as long as it comes.
func (s *Handler) setDeadlines(c echo.Context, hold time.Duration) *http.ResponseController {
	control := http.NewResponseController(c.Response())
	now := time.Now() // the connection's clock, not the service's
	// A reader that times out while the request is held would end it, so
	// only requests that have a body get a deadline for it.
	if c.Request().ContentLength == 0 {
		_ = control.SetReadDeadline(time.Time{})
	} else {
		_ = control.SetReadDeadline(now.Add(s.Times.Body))
	}
	_ = control.SetWriteDeadline(now.Add(s.Times.Body + hold + s.Times.Answer))
	return control
}
