package clusteraccess

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// lifetime is what is asked for: a VIM gets the next token at its next operation, which may
// be months away. The API server may give less (--service-account-max-token-expiration).
const lifetime = 365 * 24 * time.Hour

// token is one of the service account's. The zero value is none.
type token struct {
	account     types.UID
	text        string
	made, until time.Time
}

// due reports whether a new one is needed: in the last third of its life.
func (t token) due(now time.Time) bool {
	return t.text == "" || now.Before(t.made) || t.until.Sub(now) <= t.until.Sub(t.made)/3
}

func (t token) facts() api.ClusterFacts {
	if t.text == "" {
		return api.ClusterFacts{}
	}
	return api.ClusterFacts{Token: t.text, TokenExpiresAt: &t.until}
}

// request asks for a token. The API server stores none.
func (s *step) request(ctx context.Context, c *kubeapi.Client) error {
	accounts := c.Resource(serviceAccounts).Namespace(namespace)
	account, err := accounts.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return c.Explain(err)
	}
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"expirationSeconds": int64(lifetime.Seconds())},
	}}
	made := s.now()
	given, err := accounts.Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return c.Explain(err)
	}
	text, _, _ := unstructured.NestedString(given.Object, "status", "token")
	end, _, _ := unstructured.NestedString(given.Object, "status", "expirationTimestamp")
	until, err := time.Parse(time.RFC3339, end)
	if err != nil || text == "" {
		return errors.New("the API server's answer has no token, or not the time of its end")
	}
	s.token = token{account: account.GetUID(), text: text, made: made, until: until.UTC()}
	return nil
}
