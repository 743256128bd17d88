package api

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// maxWait is the longest that a caller may ask to be held.
const maxWait = 60 * time.Second

// checkParameters compares path, query and header parameters with their schemas.
// Their faults have no place in a body, so the detail names them.
func checkParameters(op operation) check {
	return func(c echo.Context) error {
		var wrong []string
		for _, p := range op.params {
			text, given := p.value(c)
			if !given {
				continue
			}
			for _, f := range p.schema.CheckText(text) {
				wrong = append(wrong, fmt.Sprintf("%s parameter %s: %s", p.in, p.name, f.Message))
			}
		}
		for name := range c.QueryParams() {
			if !op.knows(name) {
				wrong = append(wrong, fmt.Sprintf("query parameter %.40q is not known here", name))
			}
		}
		if len(wrong) > 0 {
			return wire.NewProblem(wire.ProblemInvalid, strings.Join(wrong, "; "))
		}
		return nil
	}
}

func (o operation) knows(query string) bool {
	for _, p := range o.params {
		if p.in == "query" && p.name == query {
			return true
		}
	}
	return false
}

func (p parameter) value(c echo.Context) (text string, given bool) {
	switch p.in {
	case "path":
		return c.Param(p.name), true
	case "query":
		values := c.QueryParams()
		return values.Get(p.name), values.Has(p.name)
	}
	values := c.Request().Header.Values(p.name)
	return strings.Join(values, ", "), len(values) > 0
}

// waitOf reads the parameter wait.
func waitOf(text *string) (time.Duration, error) {
	if text == nil {
		return 0, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil || d < 0 || d > maxWait {
		return 0, wire.NewProblem(wire.ProblemInvalid, fmt.Sprintf("query parameter wait: is %.40q; expected a duration from 0s to %s, such as 30s", *text, maxWait))
	}
	return d, nil
}

// holdOf is how long to hold a poll: for the cadence, give or take a tenth, or for
// the time that the agent asks for, where that is less.
func (s *Handler) holdOf(asked *string) (time.Duration, error) {
	hold := jittered(time.Duration(s.PollSeconds) * time.Second)
	if asked == nil {
		return hold, nil
	}
	d, err := time.ParseDuration(*asked)
	if err != nil || d < 0 {
		return 0, wire.NewProblem(wire.ProblemInvalid, fmt.Sprintf("query parameter wait: is %.40q; expected a duration such as 20s", *asked))
	}
	return min(hold, d), nil
}

// escapeFilePath lets a client write the slashes of a package file's path as they
// are: it escapes them, so that the generated route, whose last parameter is one
// segment, takes them.
func escapeFilePath(u *url.URL) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), "/v1/vnf_instances/")
	if !ok {
		return
	}
	instance, file, ok := strings.Cut(rest, "/files/")
	if !ok || strings.Contains(instance, "/") || !strings.Contains(file, "/") {
		return
	}
	u.RawPath = "/v1/vnf_instances/" + instance + "/files/" + strings.ReplaceAll(file, "/", "%2F")
}
