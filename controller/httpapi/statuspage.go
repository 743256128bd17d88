package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/ui"
)

// statusPage registers the routes of the status page behind the same checks as the API's.
func (s *Handler) statusPage() {
	for _, route := range s.UI.Routes() {
		checks := behind(named(route.Name), s.bound(0, route.Stream), s.authenticate(endpoint{id: route.Name, scheme: string(route.Scheme)}), s.limitStatuses(route.Name))
		routes := withHead{s.echo}
		switch {
		case route.Method == http.MethodGet && !route.Stream:
			routes.GET(route.Path, s.serve(route), checks)
		default:
			s.echo.Add(route.Method, route.Path, s.serve(route), checks)
		}
	}
}

// serve passes a request on to the status page: HTTP's own parameters, no echo.
func (s *Handler) serve(route ui.Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		call := callOf(r.Context())
		if err := call.mustBeAuthenticated(route.Name); err != nil {
			return err
		}
		for _, name := range c.ParamNames() {
			r.SetPathValue(name, c.Param(name))
		}
		if route.Stream {
			ctx, release := s.held(r.Context())
			defer release()
			r = r.WithContext(ctx)
		}
		return route.Serve(c.Response(), r, call.session)
	}
}
