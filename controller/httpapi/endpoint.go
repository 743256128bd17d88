package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/nodehitch/nodehitch/controller/httpapi/schema"
	"github.com/nodehitch/nodehitch/controller/ui"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// The security schemes of the OpenAPI document; open is the empty list.
const (
	schemeOpen        = "open"
	schemeBearer      = "bearer"
	schemeJoinToken   = "joinToken"
	schemeCertificate = "clientCertificate"
)

// The schemes of the status page, which is not in the document.
const (
	schemeSession = string(ui.SignedIn)
	schemeSignIn  = string(ui.SigningIn)
)

// endpoint is one operation of the OpenAPI document, or a view of the status page, ready to be
// enforced.
type endpoint struct {
	id     string
	scheme string
	scopes []wire.Scope // of bearer tokens that may call it
	params []parameter
	// body is nil if no JSON is expected.
	body *schema.Schema
	// upload says that the body is a file.
	upload bool
}

// parameter is one of path, query or header that has a schema worth checking.
type parameter struct {
	name, in string
	schema   *schema.Schema
}

// forOperators are the reading operations whose answer is worth as much as the
// power to write: the join token, the access to a cluster, files that may contain keys, and all of
// it; and what says more of the controller's machine than a viewer has to know.
var forOperators = []string{"getJoinToken", "getClusterAccess", "getFile", "getBackup", "getDiagnostics"}

// forTacker are the operations that Tacker's hooks need.
var forTacker = []string{
	"putInstance", "planInstance", "getInstance", "deleteInstance", "putFile", "getJoinToken", "getClusterAccess", "getTrust",
	"postOperation", "getOperation", "listInstanceOperations", "cancelOperation", "getNode", "getWhoami",
}

// endpointsOf reads the whole document, so that nothing in it can be forgotten:
// an operation whose demands are not understood is an error.
func endpointsOf(document *openapi3.T) (map[string]endpoint, error) {
	all := make(map[string]endpoint)
	for path, item := range document.Paths.Map() {
		for method, op := range item.Operations() {
			o, err := endpointOf(document, method, item, op)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			all[o.id] = o
		}
	}
	return all, nil
}

// scopesOf are the scopes of the API tokens that may call an operation.
func scopesOf(method, operation string) []wire.Scope {
	scopes := []wire.Scope{wire.ScopeOperator}
	if method == http.MethodGet && !slices.Contains(forOperators, operation) {
		scopes = append(scopes, wire.ScopeViewer)
	}
	if slices.Contains(forTacker, operation) {
		scopes = append(scopes, wire.ScopeTacker)
	}
	return scopes
}

func endpointOf(document *openapi3.T, method string, item *openapi3.PathItem, op *openapi3.Operation) (endpoint, error) {
	o := endpoint{id: op.OperationID, scopes: scopesOf(method, op.OperationID)}
	var err error
	if o.scheme, err = schemeOf(document, op); err != nil {
		return o, err
	}
	for _, ref := range slices.Concat(item.Parameters, op.Parameters) {
		compiled, err := schema.Compile(ref.Value.Schema)
		if err != nil {
			return o, fmt.Errorf("parameter %s: %w", ref.Value.Name, err)
		}
		o.params = append(o.params, parameter{name: ref.Value.Name, in: ref.Value.In, schema: compiled})
	}
	if op.RequestBody == nil {
		return o, nil
	}
	content := op.RequestBody.Value.Content
	o.upload = content["application/octet-stream"] != nil
	if media := content["application/json"]; media != nil {
		if o.body, err = schema.Compile(media.Schema); err != nil {
			return o, fmt.Errorf("request body: %w", err)
		}
	}
	return o, nil
}

// needs names the scopes of the tokens that may call it.
func (o endpoint) needs() string {
	var names []string
	for _, s := range o.scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, " or ")
}

// schemeOf is the one security scheme that the operation asks for.
func schemeOf(document *openapi3.T, op *openapi3.Operation) (string, error) {
	requirements := document.Security
	if op.Security != nil {
		requirements = *op.Security
	}
	if len(requirements) == 0 {
		return schemeOpen, nil
	}
	if len(requirements) != 1 || len(requirements[0]) != 1 {
		return "", fmt.Errorf("security %v: expected one scheme", requirements)
	}
	for name := range requirements[0] {
		if name == schemeBearer || name == schemeJoinToken || name == schemeCertificate {
			return name, nil
		}
		return "", fmt.Errorf("the security scheme %q is not enforced here", name)
	}
	return "", nil
}
