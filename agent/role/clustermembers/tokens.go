package clustermembers

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A bootstrap token is a Secret of this type and namespace, and its name has the token's id.
const (
	secretType   = "bootstrap.kubernetes.io/token"
	secretPrefix = "bootstrap-token-"
	namespace    = "kube-system"
)

// joiners is the group that kubeadm lets join.
const joiners = "system:bootstrappers:kubeadm:default-node-token"

// A token that is not used ends after lifetime. It is renewed when renewal is left.
const (
	lifetime = 24 * time.Hour
	renewal  = 12 * time.Hour
)

// The label of what nodehitch has made.
const (
	ownerLabel = "app.kubernetes.io/managed-by"
	owner      = "nodehitch"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// secret is a bootstrap token in the cluster.
type secret struct{ *unstructured.Unstructured }

func (u *update) secrets() dynamic.ResourceInterface { return u.Resource(secrets).Namespace(namespace) }

// listTokens lists the bootstrap tokens that nodehitch has made, and those of members that
// others have made: kubeadm makes that of the master on which it makes the cluster.
func (u *update) listTokens(ctx context.Context) ([]secret, error) {
	list, err := u.secrets().List(ctx, metav1.ListOptions{FieldSelector: "type=" + secretType})
	if err != nil {
		return nil, u.Explain(err)
	}
	var all []secret
	for i := range list.Items {
		t := secret{&list.Items[i]}
		if t.GetLabels()[ownerLabel] == owner || slices.ContainsFunc(u.members, func(m api.ClusterMember) bool { return secretName(m.BootstrapToken) == t.GetName() }) {
			all = append(all, t)
		}
	}
	return all, nil
}

// token plans to make the member's token valid for a day, if it is not valid for half a day.
func (u *update) token(m api.ClusterMember) {
	for _, t := range u.tokens {
		if t.GetName() == secretName(m.BootstrapToken) && t.valid(m, u.now) {
			return
		}
	}
	want := wanted(m, u.now.Add(lifetime))
	u.do(want.GetName(), fmt.Sprintf("make the bootstrap token of %s valid for %d hours", m.Name, int(lifetime.Hours())), func(ctx context.Context) error {
		_, err := u.secrets().Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: kubeapi.FieldManager, Force: true})
		return u.Explain(err)
	})
}

// deleteToken plans to delete one whose server has a Node, or is not to join.
func (u *update) deleteToken(t secret) {
	uid := t.GetUID()
	u.do(t.GetName(), fmt.Sprintf("delete the bootstrap token %s, whose server does not join any more", t.GetName()),
		func(ctx context.Context) error {
			err := u.secrets().Delete(ctx, t.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return u.Explain(err)
		})
}

func secretName(token string) string {
	id, _, _ := strings.Cut(token, ".")
	return secretPrefix + id
}

// fields are the token's in the form of a Secret, without its end.
func fields(m api.ClusterMember) map[string]string {
	id, password, _ := strings.Cut(m.BootstrapToken, ".")
	return map[string]string{
		"token-id": id, "token-secret": password, "auth-extra-groups": joiners,
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"description": "nodehitch: server " + m.ServerID + " joins with it",
	}
}

// wanted is the Secret of a token that ends at a time.
func wanted(m api.ClusterMember, end time.Time) *unstructured.Unstructured {
	data := map[string]any{"expiration": encode(end.Format(time.RFC3339))}
	for name, value := range fields(m) {
		data[name] = encode(value)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": secretType, "data": data,
		"metadata": map[string]any{
			"name": secretName(m.BootstrapToken), "namespace": namespace,
			"labels": map[string]any{ownerLabel: owner}, "annotations": map[string]any{kubeapi.ServerIDAnnotation: m.ServerID},
		},
	}}
}

// valid reports whether the Secret is the member's token and ends neither soon nor, after
// the clock was set back, later than a new one.
func (t secret) valid(m api.ClusterMember, now time.Time) bool {
	data, _, _ := unstructured.NestedStringMap(t.Object, "data")
	end, err := time.Parse(time.RFC3339, decode(data["expiration"]))
	if err != nil || end.Sub(now) <= renewal || end.Sub(now) > lifetime {
		return false
	}
	have := maps.Clone(data)
	delete(have, "expiration")
	want := fields(m)
	return maps.EqualFunc(have, want, func(a, b string) bool { return decode(a) == b })
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func decode(text string) string {
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(plain)
}
