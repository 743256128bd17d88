package httpapi

import (
	"context"
	"errors"

	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// ListTokens lists the API tokens without their secrets.
func (s *Handler) ListTokens(ctx context.Context, r ListTokensRequestObject) (ListTokensResponseObject, error) {
	p := r.Params
	got, err := list(ctx, s, notify.Tokens, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, tokenKey, nil, func() ([]wire.Token, error) { return s.Tokens.List(ctx) })
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListTokens304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListTokens200JSONResponse{Body: wire.TokenList{Items: got.value.items}, Headers: ListTokens200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}

// CreateToken makes an API token.
func (s *Handler) CreateToken(ctx context.Context, r CreateTokenRequestObject) (CreateTokenResponseObject, error) {
	token, err := s.Tokens.Create(ctx, *r.Body)
	if err != nil {
		return nil, err
	}
	return CreateToken201JSONResponse(token), nil
}

// RevokeToken revokes an API token.
func (s *Handler) RevokeToken(ctx context.Context, r RevokeTokenRequestObject) (RevokeTokenResponseObject, error) {
	if err := s.Tokens.Revoke(ctx, r.TokenID); err != nil {
		return nil, err
	}
	return RevokeToken204Response{}, nil
}

// GetWhoami says whom the caller is taken for. On the unix socket that is nobody's token.
func (s *Handler) GetWhoami(ctx context.Context, _ GetWhoamiRequestObject) (GetWhoamiResponseObject, error) {
	call := callOf(ctx)
	who := wire.Whoami{Caller: call.who, Scope: wire.ScopeOperator, Token: call.token}
	if call.token != nil {
		who.Scope = call.token.Scope
	}
	return GetWhoami200JSONResponse(who), nil
}

// GetTrust shows what user_data needs.
func (s *Handler) GetTrust(context.Context, GetTrustRequestObject) (GetTrustResponseObject, error) {
	return GetTrust200JSONResponse(s.Trust), nil
}

// GetHealthz answers while the process does.
func (s *Handler) GetHealthz(context.Context, GetHealthzRequestObject) (GetHealthzResponseObject, error) {
	return GetHealthz200TextResponse("ok\n"), nil
}

// GetReadyz answers 200 while the controller can do its work.
func (s *Handler) GetReadyz(ctx context.Context, _ GetReadyzRequestObject) (GetReadyzResponseObject, error) {
	problem := wire.NewProblem(wire.ProblemUnavailable, "the controller is shutting down")
	if s.draining.Err() == nil {
		err := s.Serviceable(ctx)
		if err == nil {
			return GetReadyz200TextResponse("ok\n"), nil
		}
		s.Log.WarnContext(ctx, "not ready", "error", err)
		var known *wire.Problem
		if errors.As(err, &known) {
			return nil, known
		}
		problem.Detail = "the store does not answer; see the controller's log"
	}
	return nil, problem
}
