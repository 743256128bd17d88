package trust

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func TestScopes(t *testing.T) {
	w := newTarget(t, loopback.Options{})
	run(t, w, []trial{
		{"scopes: every operation with every credential", "each operation of openapi.yaml answers the credentials that the document names and refuses all others, on TLS and on the socket", matrix},
		{"scopes: what is no operation", "paths and methods that the document does not have are 404 and 405 for every credential", nowhere},
		{"scopes: a token while it is in use", "a revoked token is refused from the next request on, also on its kept connection", revokedToken},
	})
}

// demand is what an operation of the document asks for.
type demand struct {
	id, method string
	// template is its path in the document; path has ids in it that nothing has.
	template, path string
	need           string // open, viewer, operator, join token, certificate
}

// demands are those of every operation. A GET is for viewers, unless its summary
// says (scope operator), as the document promises its readers.
func demands(t testing.TB) []demand {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromFile("../../shared/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []demand
	for path, item := range document.Paths.Map() {
		for method, op := range item.Operations() {
			d := demand{id: op.OperationID, method: method, template: path, path: somewhere(path), need: "operator"}
			requirements := document.Security
			if op.Security != nil {
				requirements = *op.Security
			}
			switch {
			case len(requirements) == 0:
				d.need = "open"
			case requirements[0]["joinToken"] != nil:
				d.need = "join token"
			case requirements[0]["clientCertificate"] != nil:
				d.need = "certificate"
			case method == http.MethodGet && !strings.Contains(op.Summary, "scope operator"):
				d.need = "viewer"
			}
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b demand) int { return strings.Compare(a.id, b.id) })
	return all
}

// somewhere fills a path's parameters with ids that do not exist, so that no allowed
// request affects the others.
func somewhere(path string) string {
	values := map[string]string{"sequence": "1", "arch": "amd64", "path": "Files/x.yaml", "sha256": zeros}
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			part = values[strings.TrimSuffix(name, "}")]
			if part == "" {
				part = uuid.NewString()
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "/")
}

// credential is a caller, and the needs of the document that it meets.
type credential struct {
	caller  *caller
	headers []string
	meets   []string
	// calls are operations that it may call besides.
	calls []string
	// refusal is the status that refuses it, if it is not 401.
	refusal map[string]int
}

func credentials(a *attempt) map[string]credential {
	node := a.w.enrolled(a.w.ours, a.w.spare())
	viewer, operator, revoked := a.w.Token("trust", api.ScopeViewer), a.w.Token("trust", api.ScopeOperator), a.w.Token("trust", api.ScopeOperator)
	if err := client.Done(a.w.API.RevokeToken(a.Context(), revoked.Token.ID)); err != nil {
		a.Fatal(err)
	}
	id, _, _ := strings.Cut(operator.Secret, ".")
	with := func(c *caller, token string, meets ...string) credential {
		return credential{caller: c, headers: []string{bearer(token)}, meets: append(meets, "open")}
	}
	line := a.w.caller()
	viewing := with(line, viewer.Secret, "viewer")
	viewing.refusal = map[string]int{"operator": http.StatusForbidden}
	tacker := with(line, a.w.Token("trust", api.ScopeTacker).Secret)
	tacker.calls = []string{"putInstance", "planInstance", "getInstance", "deleteInstance", "putFile", "getJoinToken", "getClusterAccess", "getTrust",
		"postOperation", "getOperation", "listInstanceOperations", "cancelOperation", "getNode", "getWhoami"}
	tacker.refusal = map[string]int{"viewer": http.StatusForbidden, "operator": http.StatusForbidden}
	return map[string]credential{
		"no credential":          {caller: line, meets: []string{"open"}},
		"a false token":          with(line, "0123456789abcdef.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
		"an id without secret":   with(line, id+"."),
		"a revoked token":        with(line, revoked.Secret),
		"a viewer":               viewing,
		"Tacker":                 tacker,
		"an operator":            with(line, operator.Secret, "viewer", "operator"),
		"an operator, as Basic":  {caller: line, headers: []string{"Authorization: Basic " + operator.Secret}, meets: []string{"open"}},
		"an operator, elsewhere": {caller: line, headers: []string{"X-Auth-Token: " + operator.Secret}, meets: []string{"open"}},
		"a join token":           with(line, a.w.ours.token, "join token"),
		"a node":                 {caller: node.caller, meets: []string{"open", "certificate"}},
		"a node and a viewer":    {caller: node.caller, headers: viewing.headers, meets: []string{"open", "certificate", "viewer"}, refusal: viewing.refusal},
		"root on the socket":     {caller: a.w.onSocket(filepath.Join(a.w.Dir, "socket")), meets: []string{"open", "viewer", "operator"}},
	}
}

func matrix(a *attempt) {
	who := credentials(a)
	names := slices.Sorted(maps.Keys(who))
	requests := 0
	for _, d := range demands(a) {
		row := fmt.Sprintf("%-24s %-11s", d.id, d.need)
		for _, name := range names {
			c := who[name]
			got := c.caller.call(d.method, d.path, "", c.headers...)
			requests++
			row += fmt.Sprintf(" %4d", got.status)
			may := slices.Contains(c.meets, d.need) || slices.Contains(c.calls, d.id)
			switch {
			case d.need == "join token" && len(c.headers) > 0 && strings.HasPrefix(c.headers[0], "Authorization: Bearer"):
				// Any bearer token is checked together with the request; an empty one is none.
				a.refused(d.id+" by "+name, got, http.StatusUnsupportedMediaType)
			case !may:
				refusal := c.refusal[d.need]
				if refusal == 0 {
					refusal = http.StatusUnauthorized
				}
				a.refused(d.id+" by "+name, got, refusal)
			case got.err != nil || got.status == http.StatusUnauthorized || got.problem.Type == api.ProblemForbidden:
				a.Errorf("%s by %s, who may: %d %s (%v)", d.id, name, got.status, got.body, got.err)
			}
		}
		a.Log(row)
	}
	a.Logf("%-36s %s", "the columns are", strings.Join(names, ", "))
	a.c.Figure("operations", "%d", len(demands(a)))
	a.c.Figure("requests", "%d", requests)
}

func nowhere(a *attempt) {
	for name, c := range credentials(a) {
		for _, path := range []string{"/v1", "/v2/nodes", "/metrics", "/debug/pprof/", "/v1/vnf_instances/../../metrics", "/v1/nodes/x/y/z", "/.well-known/x", "/v1/tokens/"} {
			a.refused(path+" by "+name, c.caller.call(http.MethodGet, path, "", c.headers...), http.StatusNotFound, http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusBadRequest)
		}
		// What opens the API opens no page: they ask for the cookie of a session.
		for _, path := range []string{"/", "/ui/", "/ui/nodes"} {
			got := c.caller.call(http.MethodGet, path, "", c.headers...)
			if got.status != http.StatusOK || !strings.Contains(got.body, `action="/ui/sign-in"`) || strings.Contains(got.body, a.w.ours.instance) {
				a.Errorf("%s by %s is not answered with the sign-in form: %d %s", path, name, got.status, got.body)
			}
		}
		if got := c.caller.call(http.MethodGet, "/ui/events", "", c.headers...); got.status != http.StatusUnauthorized || got.body != "" {
			a.Errorf("the stream of the status page by %s: %d %s", name, got.status, got.body)
		}
		if got := c.caller.call(http.MethodOptions, "/v1/nodes", "", c.headers...); got.body != "" {
			a.Errorf("OPTIONS by %s: %s", name, got.body) // the methods are in the document anyway
		}
		for _, method := range []string{http.MethodTrace, http.MethodPatch, http.MethodDelete, "CONNECTED"} {
			a.refused(method+" by "+name, c.caller.call(method, "/v1/nodes", "", c.headers...), http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized)
		}
	}
}

func revokedToken(a *attempt) {
	token := a.w.Token("trust", api.ScopeOperator)
	line := a.w.caller()
	a.allowed("before", line.call(http.MethodGet, "/v1/nodes", "", bearer(token.Secret)), http.StatusOK)
	a.allowed("its own revocation", line.call(http.MethodDelete, "/v1/tokens/"+token.Token.ID, "", bearer(token.Secret)), http.StatusNoContent)
	a.refused("the next request", line.call(http.MethodGet, "/v1/nodes", "", bearer(token.Secret)), http.StatusUnauthorized)
	a.refused("on a new connection", a.w.caller().call(http.MethodGet, "/v1/nodes", "", bearer(token.Secret)), http.StatusUnauthorized)
}
