package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// checkParameters compares path, query and header parameters with their schemas.
// Their faults have no place in a body, so the detail names them.
func checkParameters(op endpoint) check {
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
			if !op.has("query", name) {
				wrong = append(wrong, fmt.Sprintf("query parameter %.40q is not known here", name))
			}
		}
		if name := idempotencyKeyHeader; c.Request().Method == http.MethodPost && len(c.Request().Header.Values(name)) > 0 && !op.has("header", name) {
			wrong = append(wrong, fmt.Sprintf("header parameter %s is honoured by POST of operations alone; leave it out here, and look whether a lost request was done before you repeat it", name))
		}
		if len(wrong) > 0 {
			return wire.NewProblem(wire.ProblemInvalid, strings.Join(wrong, "; "))
		}
		return nil
	}
}

func (o endpoint) has(in, name string) bool {
	return slices.ContainsFunc(o.params, func(p parameter) bool { return p.in == in && p.name == name })
}

func (p parameter) value(c echo.Context) (text string, given bool) {
	switch p.in {
	case "path":
		return c.Param(p.name), true
	case "query":
		values := c.QueryParams()
		return values.Get(p.name), values.Has(p.name)
	}
	header := c.Request().Header
	text, given = strings.Join(header.Values(p.name), ", "), len(header.Values(p.name)) > 0
	if given { // lines of one name are one list (RFC 9110, section 5.3); what binds it takes one line
		header.Set(p.name, text)
	}
	return text, given
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
