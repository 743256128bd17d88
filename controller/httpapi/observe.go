package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// quiet operations are what agents and probes do all the time; they are logged at
// level debug unless they fail.
var quiet = []string{"getNodeConfig", "putNodeStatus", "getHealthz", "getReadyz"}

// observe is around everything: it gives the request its id, survives a panic,
// and sees to the log and the metrics.
func (s *Handler) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := s.Now()
		call := begin(c, rand.Text()[:16])
		escapeFilePath(c.Request().URL)
		s.setDeadlines(c, 0)
		c.Response().Header().Set("X-Request-Id", call.id)
		c.Response().Header().Set("Cache-Control", "no-store")
		c.Response().Header().Set("X-Content-Type-Options", "nosniff") // an answer of the API is no script of the page
		err := s.surviving(next, c)
		aborted := errors.Is(err, http.ErrAbortHandler)
		if err != nil && !aborted {
			s.answerError(err, c)
		}
		call.endList()
		status := c.Response().Status
		took := s.Now().Sub(started)
		s.Metrics.Answered(call.operation, status, took)
		s.logRequest(c, call, err, took)
		if aborted {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// surviving turns a panic of the handler into an error.
func (s *Handler) surviving(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: //nolint:errorlint // net/http compares the same way
			err = http.ErrAbortHandler
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return next(c)
}

// logRequest logs every request; what agents and probes do all the time, and what only reads, at
// level debug, unless it fails or is for operators alone.
func (s *Handler) logRequest(c echo.Context, call *call, err error, took time.Duration) {
	status := c.Response().Status
	level := slog.LevelInfo
	var problem *wire.Problem
	var routing *echo.HTTPError
	var disk syscall.Errno
	method := c.Request().Method
	internal := err != nil && !errors.As(err, &problem) && !errors.As(err, &routing) && !errors.Is(err, context.Canceled)
	switch {
	case status < 400 && slices.Contains(forOperators, call.operation):
		// Who has read it is for the record, also if only a part of the answer has left.
	case internal && c.Response().Committed && status < 400:
		level = slog.LevelDebug // the client went away in the middle of the answer
	case internal || status >= 500 && status != http.StatusNotImplemented && status != http.StatusServiceUnavailable:
		level = slog.LevelError
	case status == http.StatusServiceUnavailable && errors.As(err, &disk):
		level = slog.LevelError // a full disk, say: the operator must fix it
	case isUnconfirmed(err) && slices.Contains(quiet, call.operation):
		level = slog.LevelDebug // each agent, each minute, until the operator has confirmed
	case status == http.StatusTooManyRequests && slices.Contains(quiet, call.operation):
		level = slog.LevelDebug // limitStatuses has logged that it began
	case status < 400 && (method == http.MethodGet || method == http.MethodHead || slices.Contains(quiet, call.operation)):
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("operation", call.operation), slog.Int("status", status), slog.String("who", call.who),
		slog.String("path", c.Request().URL.Path), slog.String("method", method),
		slog.String("remote", c.Request().RemoteAddr), slog.Duration("took", took), slog.String("request", call.id),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", loggable(err)))
	}
	s.Log.LogAttrs(c.Request().Context(), level, "request", attrs...)
}

// loggable is the error for the log. For a refused body it has only the places: a message
// may repeat a value, and a value in the wrong place may be a password.
func loggable(err error) string {
	var p *wire.Problem
	if !errors.As(err, &p) || len(p.InvalidParams) == 0 {
		return err.Error()
	}
	places := make([]string, 0, len(p.InvalidParams))
	for _, f := range p.InvalidParams {
		places = append(places, f.Pointer)
	}
	return fmt.Sprintf("%s (%d): %d faults, at %.1000q", p.Title, p.Status, len(places), places)
}
