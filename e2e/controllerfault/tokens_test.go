package controllerfault

import (
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (w *work) tokens() {
	w.step("create a token", nil, func() (err error) { w.alice, err = w.newToken("alice"); return err },
		facts{"alice's token opens": kept(func() int { return len(w.alice.Secret) }, func() error { return w.opens(w.alice) })})
	bob := new(api.NewToken)
	w.step("create another token", nil, func() (err error) { bob, err = w.newToken("bob"); return err },
		facts{"bob's token opens": kept(func() int { return len(bob.Secret) }, func() error { return w.opens(bob) })})
	w.step("revoke a token", []string{"bob's token opens"}, func() error {
		return gone(client.Done(w.c.API.RevokeToken(w.t.Context(), bob.Token.ID)))
	}, facts{"bob's token opens nothing": refused(func() error { return notLetIn(w.ask(bob)) })})
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

func (w *work) opens(token *api.NewToken) error {
	if err := w.ask(token); err != nil {
		return unexpected(err)
	}
	return nil
}

// ask asks with the token for what everybody may know who has one.
func (w *work) ask(token *api.NewToken) error {
	trust := w.c.Trust()
	c, err := client.New(client.Options{BaseURL: w.c.URL, RootPEM: []byte(trust.RootCertificate), Token: token.Secret, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	return client.Done(c.ListInstances(w.t.Context(), nil))
}
