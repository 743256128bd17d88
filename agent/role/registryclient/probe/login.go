package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// login logs in with the first challenge that the registry offers.
func (s *session) login(ctx context.Context, offered []challenge) error {
	authorize, err := s.authorization(ctx, offered)
	if err != nil {
		return err
	}
	a, err := s.get(ctx, s.base, authorize)
	if err != nil {
		return err
	}
	if refused(a) {
		return s.unauthorized(s.Server, a)
	}
	return s.checkAnswer(a)
}

// authorization is what a request needs to be let in by the first way that is offered. For a
// token, the token service has accepted the login.
func (s *session) authorization(ctx context.Context, offered []challenge) (func(*http.Request), error) {
	if len(offered) == 0 {
		return nil, converge.Wait(api.ReasonUnreachable, "%s asks for a login, but neither for a password (Basic) nor for a token (Bearer)", s.Server)
	}
	if offered[0].scheme != "bearer" {
		return s.password, nil
	}
	token, err := s.token(ctx, offered[0])
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, nil
}

// tryAtCatalog tries the login at the list of repositories, which a registry that answers
// GET /v2/ to everybody may keep for its users. It reports whether the login was accepted
// there; if not and without an error, the registry asks for none there either, or has no
// such list. A user whom the registry knows need not be allowed to see the list.
func (s *session) tryAtCatalog(ctx context.Context) (accepted bool, err error) {
	catalog := s.base.ResolveReference(&url.URL{Path: "_catalog", RawQuery: "n=1"})
	a, err := s.get(ctx, catalog, nil)
	if err != nil || a.status != http.StatusUnauthorized || !sameOrigin(s.base, a.url) {
		return false, nil //nolint:nilerr // the registry has answered; images can be pulled without the list
	}
	offered := challenges(a.header)
	if len(offered) == 0 {
		return false, nil
	}
	authorize, err := s.authorization(ctx, offered)
	if err != nil || offered[0].scheme == "bearer" {
		return err == nil, err
	}
	a, err = s.get(ctx, catalog, authorize)
	switch {
	case err != nil:
		return false, err
	case a.status == http.StatusUnauthorized:
		return false, s.unauthorized(s.Server, a)
	}
	return a.status == http.StatusOK || a.status == http.StatusForbidden, nil
}

func (s *session) password(r *http.Request) { r.SetBasicAuth(s.Username, s.Password) }

func refused(a *answer) bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
}

func (s *session) unauthorized(who string, a *answer) error {
	return converge.Fail(api.ReasonUnauthorized, "%s refuses the login of %s: %s", who, s.clean(s.Username), a.summary(s.clean))
}

// token asks the service that the registry names for a token, as in the Distribution
// project's token specification.
func (s *session) token(ctx context.Context, c challenge) (string, error) {
	realm, err := s.base.Parse(c.parameters["realm"])
	if err != nil || realm.Host == "" || realm.Scheme != "https" && realm.Scheme != "http" {
		return "", converge.Wait(api.ReasonUnreachable, "%s names a token service that is no address: %q", s.Server, s.clean(c.parameters["realm"]))
	}
	who := s.Server
	if !sameOrigin(s.base, realm) {
		who += "'s token service " + s.clean(origin(realm))
	}
	if s.base.Scheme == "https" && realm.Scheme == "http" {
		return "", converge.Fail(api.ReasonUnauthorized, "%s is not used: the password would be sent unencrypted, although the registry is HTTPS; fix the registry's realm", who)
	}
	a, err := s.get(ctx, withQuery(realm, c, s.Username), s.password)
	if err != nil {
		return "", err
	}
	var given struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	_ = json.Unmarshal(a.body, &given) // an answer that is no JSON contains no token
	s.secrets = append(s.secrets, given.Token, given.AccessToken)
	token := cmp.Or(given.Token, given.AccessToken)
	switch {
	case refused(a):
		return "", s.unauthorized(who, a)
	case a.status == http.StatusOK && token != "":
		if err := a.bySystemCAs(); err != nil {
			s.tokenCA = who + ": " + s.clean(err.Error())
		}
		return token, nil
	case a.status < 400: // no error: its body may contain a truncated token
		a.body = nil
	}
	return "", converge.Wait(api.ReasonUnreachable, "%s gives no token: %s", who, a.summary(s.clean))
}

func withQuery(realm *url.URL, c challenge, username string) *url.URL {
	u := *realm
	q := u.Query()
	for _, name := range []string{"service", "scope"} {
		if value := c.parameters[name]; value != "" {
			q.Set(name, value)
		}
	}
	q.Set("account", username)
	q.Set("client_id", "nodehitch-agent")
	u.RawQuery = q.Encode()
	return &u
}
