package kube

import (
	"fmt"
	"time"

	"sigs.k8s.io/yaml"
)

// Kubeconfig has a certificate that names the user and the groups: with (Admin, Masters)
// it is what kubeadm writes to /etc/kubernetes/admin.conf. A user of no group may do what
// RBAC objects say, which is nothing at first.
func (c *Cluster) Kubeconfig(user string, groups ...string) ([]byte, error) {
	return c.KubeconfigUntil(time.Time{}, user, groups...)
}

// KubeconfigUntil is Kubeconfig with a certificate that ends, or has ended in the last
// hour, at notAfter.
func (c *Cluster) KubeconfigUntil(notAfter time.Time, user string, groups ...string) ([]byte, error) {
	identity, err := c.authority.client(notAfter, user, groups...)
	if err != nil {
		return nil, fmt.Errorf("a kubeconfig for %s: %w", user, err)
	}
	certificate, key, err := pemOf(identity)
	if err != nil {
		return nil, fmt.Errorf("a kubeconfig for %s: %w", user, err)
	}
	const cluster = "kubernetes"
	context := user + "@" + cluster
	type object map[string]any
	return yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "preferences": object{}, "current-context": context,
		"clusters": []object{{"name": cluster, "cluster": object{"server": c.URL, "certificate-authority-data": c.authority.pem()}}},
		"users":    []object{{"name": user, "user": object{"client-certificate-data": certificate, "client-key-data": key}}},
		"contexts": []object{{"name": context, "context": object{"cluster": cluster, "user": user}}},
	})
}
