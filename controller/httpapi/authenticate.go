package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/traffic/caller"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// How many connections a caller may have. A node has one for its poll and one for
// its reports, twice as many while it renews, and may have lost some on the way.
const (
	nodeConnections  = 8
	tokenConnections = 256
)

// authenticate accepts a caller that shows what the operation requires, before
// anything of the body is read.
func (s *Handler) authenticate(op endpoint) check {
	accept := map[string]func(echo.Context, endpoint) error{
		schemeOpen:        func(echo.Context, endpoint) error { return nil },
		schemeBearer:      s.bearer,
		schemeJoinToken:   s.joinToken,
		schemeCertificate: s.certificate,
		schemeSession:     s.session,
		schemeSignIn:      func(echo.Context, endpoint) error { return nil }, // the token is in the body
	}[op.scheme]
	return func(c echo.Context) error {
		if err := accept(c, op); err != nil {
			return err
		}
		callOf(c.Request().Context()).authenticated = true
		return nil
	}
}

// authenticatedOnly is the last thing before every handler: a route that was registered
// without its authentication is closed, not open.
func authenticatedOnly(next StrictHandlerFunc, operation string) StrictHandlerFunc {
	return func(c echo.Context, request any) (any, error) {
		if err := callOf(c.Request().Context()).mustBeAuthenticated(operation); err != nil {
			return nil, err
		}
		return next(c, request)
	}
}

func (c *call) mustBeAuthenticated(operation string) error {
	if !c.authenticated {
		return errors.New("the route of " + operation + " was registered without authentication")
	}
	return nil
}

// bearer accepts an API token of the scope that the operation needs, and root of
// this machine on the unix socket.
func (s *Handler) bearer(c echo.Context, op endpoint) error {
	call := callOf(c.Request().Context())
	if who, ok := caller.Operator(c.Request().Context()); ok {
		call.who = who
		return nil
	}
	secret, ok := bearerOf(c.Request())
	if !ok {
		return wire.NewProblem(wire.ProblemUnauthorized, "this call needs an API token: Authorization: Bearer <token>; "+
			"root on the controller's machine makes one with POST /v1/tokens on the unix socket").With(wire.Action{Call: wire.CallCreateToken})
	}
	token, err := s.Tokens.Verify(c.Request().Context(), secret)
	if err != nil {
		return err
	}
	call.who, call.token = "token "+token.Name, &token
	connlimit.Authenticated(c.Request().Context(), "token "+token.ID, tokenConnections)
	if !slices.Contains(op.scopes, token.Scope) {
		return wire.NewProblem(wire.ProblemForbidden, fmt.Sprintf("the token %s has the scope %s; this call needs %s", token.Name, token.Scope, op.needs()))
	}
	return nil
}

// session accepts the cookie of somebody who has signed in to the status page.
func (s *Handler) session(c echo.Context, _ endpoint) error {
	r := c.Request()
	session, err := s.UI.Authenticate(r)
	if err != nil {
		return err
	}
	call := callOf(r.Context())
	call.session, call.who = session, "token "+session.Token.Name
	connlimit.Authenticated(r.Context(), "token "+session.Token.ID, tokenConnections)
	return nil
}

// joinToken passes the join token on; only enrollment can check it.
func (s *Handler) joinToken(c echo.Context, _ endpoint) error {
	secret, ok := bearerOf(c.Request())
	if !ok {
		return wire.NewProblem(wire.ProblemUnauthorized, "this call needs the instance's join token: Authorization: Bearer <join token>")
	}
	callOf(c.Request().Context()).joinToken = secret
	return nil
}

// certificate accepts a live identity, and for its renewal one that has expired.
func (s *Handler) certificate(c echo.Context, op endpoint) error {
	r := c.Request()
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return wire.NewProblem(wire.ProblemUnauthorized, "this call needs the client certificate that was issued at enrollment")
	}
	call := callOf(r.Context())
	nodeID, serial, err := s.Enrollment.Authenticate(r.Context(), r.TLS.PeerCertificates, op.id == "renewCertificate")
	if isUnconfirmed(err) {
		s.Nodes.Seen(nodeID) // an operator wants to know who is there before confirming
	}
	if err != nil {
		return err
	}
	call.nodeID, call.serial, call.who = nodeID, serial, "node "+nodeID
	connlimit.Authenticated(r.Context(), call.who, nodeConnections)
	return nil
}

func bearerOf(r *http.Request) (string, bool) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	return secret, strings.EqualFold(scheme, "Bearer") && secret != ""
}
