package controllerfault

import (
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (w *work) tokens() {
	w.step("create a token", nil, func() (err error) { w.alice, err = w.newToken("alice"); return err },
		facts{"alice's token opens": func() error { return w.token(w.alice, http.StatusOK) }})
	bob := new(api.NewToken)
	w.step("create another token", nil, func() (err error) { bob, err = w.newToken("bob"); return err },
		facts{"bob's token opens": func() error { return w.token(bob, http.StatusOK) }})
	w.step("revoke a token", []string{"bob's token opens"}, func() error {
		return gone(client.Done(w.c.API.RevokeToken(w.t.Context(), bob.Token.ID)))
	}, facts{"bob's token opens nothing": func() error { return w.token(bob, http.StatusUnauthorized) }})
}

// newToken makes a token of this name. One whose secret was lost on the way is
// revoked before, as an operator does who finds it in the list.
func (w *work) newToken(name string) (*api.NewToken, error) {
	list, err := client.Read[api.TokenList](w.c.API.ListTokens(w.t.Context()))
	if err != nil {
		return nil, err
	}
	for _, t := range list.Items {
		if t.Name == name {
			if err := client.Done(w.c.API.RevokeToken(w.t.Context(), t.ID)); err != nil {
				return nil, err
			}
		}
	}
	return client.Read[api.NewToken](w.c.API.CreateToken(w.t.Context(), api.TokenRequest{Name: name, Scope: api.ScopeOperator}))
}

func (w *work) token(token *api.NewToken, want int) error {
	trust := w.c.Trust()
	c, err := client.New(client.Options{BaseURL: w.c.URL, RootPEM: []byte(trust.RootCertificate), Token: token.Secret, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	err = client.Done(c.GetInstance(w.t.Context(), "b1bb0ce7-ebca-4fa7-95ed-000000000000"))
	if status := client.Status(err); status == want || want == http.StatusOK && status == http.StatusNotFound {
		return nil
	}
	return unexpected(err)
}
