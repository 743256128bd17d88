package openstack

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// The services' types in the catalog.
const (
	identity      = "identity"
	orchestration = "orchestration"
	compute       = "compute"
	network       = "network"
	blockStorage  = "block-storage"
)

// called is a request to a service: its method, and its path with variables in braces.
type called struct{ service, call string }

type calledKey struct{}

const loginCall = "POST /v3/auth/tokens"

// callOf is what a request is for. A token is fetched in the course of other calls.
func callOf(req *http.Request) called {
	if strings.HasSuffix(req.URL.Path, "/v3/auth/tokens") {
		return called{identity, loginCall}
	}
	c, _ := req.Context().Value(calledKey{}).(called)
	return c
}

// request is one call: a path under the endpoint of a service, with its variables in
// braces, their values in order, and what is sent and wanted.
type request struct {
	service, method, path string
	values                []string
	query                 url.Values
	body                  any
	ok                    []int
	// into is what the answer's JSON is decoded into, nil for none.
	into any
}

// do logs in if no call has yet, and makes the call.
func (c *Cloud) do(ctx context.Context, r request) error {
	if err := c.login(ctx); err != nil {
		return err
	}
	base, _, err := c.endpoint(r.service)
	if err != nil {
		return err
	}
	at := c.calledAs(r)
	target, ok := fill(r.path, r.values)
	if !ok {
		return c.wrap(at, said("an id or a name in its path is not valid"))
	}
	u := *base
	u.Path, u.RawPath = base.Path+target, ""
	u.RawQuery = r.query.Encode()
	// Metrics have the call without the endpoint's path, which is the cloud's to choose.
	ctx = context.WithValue(ctx, calledKey{}, called{r.service, r.method + " " + r.path})
	answer, err := c.provider.Request(ctx, r.method, u.String(), &gophercloud.RequestOpts{
		JSONBody: r.body, JSONResponse: r.into, OkCodes: r.ok,
	})
	if answer != nil {
		answer.Body.Close()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.wrap(at, err)
}

// calledAs names a request with the whole path, as an access rule would.
func (c *Cloud) calledAs(r request) called {
	base, known, err := c.endpoint(r.service)
	if err != nil {
		return called{r.service, r.method + " " + r.path}
	}
	return called{known, r.method + " " + strings.ReplaceAll(base.Path, c.projectID, "{project_id}") + r.path}
}

// fill puts values in the place of the variables of a path. One that could lead to
// another path is refused.
func fill(template string, values []string) (string, bool) {
	var out strings.Builder
	for template != "" {
		head, rest, found := strings.Cut(template, "{")
		out.WriteString(head)
		if !found {
			break
		}
		_, template, _ = strings.Cut(rest, "}")
		v := values[0]
		values = values[1:]
		if v == "" || v == "." || v == ".." || strings.ContainsAny(v, "/?#%\\") {
			return "", false
		}
		out.WriteString(v)
	}
	return out.String(), true
}

// endpoint is the URL of a service's API without a slash at its end, and the service type
// that the catalog uses. Catalogs have URLs with and without the version, and with and
// without the project.
func (c *Cloud) endpoint(service string) (*url.URL, string, error) {
	at := called{service, "(finding its endpoint)"}
	var text, known string
	var err error
	for _, known = range serviceTypes[service] {
		text, err = c.provider.EndpointLocator(gophercloud.EndpointOpts{Type: known, Region: c.credential.Region, Availability: c.availability()})
		if err == nil {
			break
		}
	}
	if err != nil {
		return nil, "", c.wrap(at, said(c.noEndpoint()))
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, "", c.wrap(at, said("its URL in the catalog is not valid"))
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = versioned(service, strings.TrimSuffix(u.Path, "/"), c.projectID)
	return u, known, nil
}

// serviceTypes are the names that a service has in catalogs, the one that says the most
// first: volumev2 must not be taken for volumev3.
var serviceTypes = map[string][]string{
	orchestration: {"orchestration"},
	compute:       {"compute"},
	network:       {"network"},
	blockStorage:  {"volumev3", "block-storage", "block-store", "volume"},
}

// versioned adds to an endpoint's path what the catalog left out.
func versioned(service, base, projectID string) string {
	last := path.Base(base)
	isVersion := len(last) > 1 && last[0] == 'v' && last[1] >= '0' && last[1] <= '9'
	hasProject := projectID != "" && strings.HasSuffix(last, projectID)
	switch service {
	case orchestration, blockStorage:
		if !isVersion && !hasProject {
			base += map[string]string{orchestration: "/v1", blockStorage: "/v3"}[service]
		}
		if !hasProject {
			base += "/" + projectID
		}
	case compute:
		if !isVersion && !hasProject {
			base += "/v2.1"
		}
	case network:
		if !isVersion {
			base += "/v2.0"
		}
	}
	return base
}
