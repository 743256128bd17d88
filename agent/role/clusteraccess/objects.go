package clusteraccess

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The service account, its cluster role and its binding have one name.
const (
	name      = "nodehitch-vim"
	namespace = "kube-system"
)

const rbac = "rbac.authorization.k8s.io"

var (
	serviceAccounts     = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	clusterRoles        = schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: "clusterrolebindings"}
)

// object is one that the cluster is to have.
type object struct {
	kind schema.GroupVersionResource
	*unstructured.Unstructured
}

// objects are those of a role, in the order in which they need one another. The cluster role
// has the rights of cluster-admin itself, because what a binding refers to cannot be changed.
func objects(role api.ClusterAccessSectionRole) []object {
	account := made("v1", "ServiceAccount", map[string]any{"automountServiceAccountToken": false})
	account.SetNamespace(namespace)
	return []object{
		{serviceAccounts, account},
		{clusterRoles, made(rbac+"/v1", "ClusterRole", map[string]any{"rules": rules(role)})},
		{clusterRoleBindings, made(rbac+"/v1", "ClusterRoleBinding", map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
		})},
	}
}

func made(apiVersion, kind string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetName(name)
	u.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "nodehitch"})
	return u
}

func resource(c *kubeapi.Client, o object) dynamic.ResourceInterface {
	if o.GetNamespace() == "" {
		return c.Resource(o.kind)
	}
	return c.Resource(o.kind).Namespace(o.GetNamespace())
}

// get returns the object as it is, nil if there is none.
func get(ctx context.Context, c *kubeapi.Client, o object) (*unstructured.Unstructured, error) {
	live, err := resource(c, o).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.Explain(err)
	}
	return live, nil
}

func apply(ctx context.Context, c *kubeapi.Client, o object) error {
	if _, err := resource(c, o).Apply(ctx, name, o.Unstructured, metav1.ApplyOptions{FieldManager: kubeapi.FieldManager, Force: true}); err != nil {
		return c.Explain(err)
	}
	return nil
}

// contains reports whether live has all that want has. Lists are whole.
func contains(live, want map[string]any) bool {
	for key, value := range want {
		inner, isMap := value.(map[string]any)
		if !isMap {
			if !reflect.DeepEqual(live[key], value) {
				return false
			}
			continue
		}
		if have, ok := live[key].(map[string]any); !ok || !contains(have, inner) {
			return false
		}
	}
	return true
}
