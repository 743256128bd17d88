package controllerfault

import (
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (w *work) tokens() {
	w.step("create a token", nil, func() (err error) { w.alice, err = w.newToken("alice"); return err },
		facts{"alice's token is accepted": kept(func() int { return len(w.alice.Secret) }, func() error { return w.isAccepted(w.alice) })})
	bob := new(api.NewToken)
	w.step("create another token", nil, func() (err error) { bob, err = w.newToken("bob"); return err },
		facts{"bob's token is accepted": kept(func() int { return len(bob.Secret) }, func() error { return w.isAccepted(bob) })})
	w.step("revoke a token", []string{"bob's token is accepted"}, func() error {
		return gone(client.Done(w.c.API.RevokeToken(w.t.Context(), bob.Token.ID)))
	}, facts{"bob's token is refused": refused(func() error { return isRefusal(w.ask(bob)) })})
}

// newToken makes a token of this name. If an earlier answer with the secret was lost, the
// listed token is revoked first, as an operator would do.
func (w *work) newToken(name string) (*api.NewToken, error) {
	list, err := client.All[api.Token](func(page client.RequestEditorFn) (*http.Response, error) {
		return w.c.API.ListTokens(w.t.Context(), nil, page)
	})
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Name == name {
			if err := client.Done(w.c.API.RevokeToken(w.t.Context(), t.ID)); err != nil {
				return nil, err
			}
		}
	}
	return client.Read[api.NewToken](w.c.API.CreateToken(w.t.Context(), api.TokenRequest{Name: name, Scope: api.ScopeOperator}))
}

func (w *work) isAccepted(token *api.NewToken) error {
	if err := w.ask(token); err != nil {
		return unexpected(err)
	}
	return nil
}

// ask makes a request with the token that any token allows.
func (w *work) ask(token *api.NewToken) error {
	trust := w.c.Trust()
	c, err := client.New(client.Options{BaseURL: w.c.URL, RootPEM: []byte(trust.RootCertificate), Token: token.Secret, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	return client.Done(c.ListInstances(w.t.Context(), nil))
}
