package clusteraccess

import "github.com/nodehitch/nodehitch/shared/api"

// grant is the verbs on resources of one API group.
type grant struct {
	group     string
	resources []string
	verbs     []string
}

var (
	all  = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	read = []string{"get", "list", "watch"}
	once = []string{"create"}
)

// tacker is what Tacker's Kubernetes drivers need (tacker/vnfm/infra_drivers/kubernetes and
// tacker/sol_refactored/infra_drivers/kubernetes): they create, read, patch, replace and
// delete the objects of a VNF's manifests, of the kinds that they know, in any namespace;
// scale workloads; delete Pods to heal them; and list namespaces when the VIM is registered.
//
// Four of their kinds are left out, because they are the cluster's and not a VNF's: Tacker may
// read but not make a Node and an APIService, and ComponentStatus and Container are none of
// the API's. RBAC lets Tacker grant, in Roles and ClusterRoles, no more than it has itself.
var tacker = []grant{
	{"", []string{
		"configmaps", "endpoints", "limitranges", "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
		"resourcequotas", "secrets", "serviceaccounts", "services",
	}, all},
	{"", []string{"bindings"}, once},
	{"", []string{"nodes"}, read},
	{"apps", []string{"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"}, all},
	{"apps", []string{"deployments/scale", "replicasets/scale", "statefulsets/scale"}, []string{"get", "update", "patch"}},
	{"autoscaling", []string{"horizontalpodautoscalers"}, all},
	{"batch", []string{"jobs"}, all},
	{"coordination.k8s.io", []string{"leases"}, all},
	{"networking.k8s.io", []string{"networkpolicies"}, all},
	{rbac, []string{"clusterrolebindings", "clusterroles", "rolebindings", "roles"}, all},
	{"scheduling.k8s.io", []string{"priorityclasses"}, all},
	{"storage.k8s.io", []string{"storageclasses", "volumeattachments"}, all},
	{"apiregistration.k8s.io", []string{"apiservices"}, read},
	{"authentication.k8s.io", []string{"tokenreviews"}, once},
	{"authorization.k8s.io", []string{
		"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews",
	}, once},
}

// rules are the rules of the cluster role.
func rules(role api.ClusterAccessSectionRole) []any {
	if role == api.ClusterAccessAdmin {
		everything := list([]string{"*"})
		return []any{
			map[string]any{"apiGroups": everything, "resources": everything, "verbs": everything},
			map[string]any{"nonResourceURLs": everything, "verbs": everything},
		}
	}
	var all []any
	for _, g := range tacker {
		all = append(all, map[string]any{"apiGroups": list([]string{g.group}), "resources": list(g.resources), "verbs": list(g.verbs)})
	}
	return all
}

// list is the form of a list of texts in an object.
func list(texts []string) []any {
	var items []any
	for _, text := range texts {
		items = append(items, text)
	}
	return items
}
