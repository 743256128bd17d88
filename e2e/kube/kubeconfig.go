package kube

import (
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
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
	return c.KubeconfigWith(user, certificate, key)
}

// KubeconfigOf is one with the token of a user.
func (c *Cluster) KubeconfigOf(user, token string) ([]byte, error) {
	return c.kubeconfig(user, object{"token": token})
}

// KubeconfigWith is one with a certificate that the cluster has signed and its key, both in PEM.
func (c *Cluster) KubeconfigWith(user string, certificate, key []byte) ([]byte, error) {
	return c.kubeconfig(user, object{"client-certificate-data": certificate, "client-key-data": key})
}

type object map[string]any

func (c *Cluster) kubeconfig(user string, credentials object) ([]byte, error) {
	const cluster = "kubernetes"
	context := user + "@" + cluster
	return yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "preferences": object{}, "current-context": context,
		"clusters": []object{{"name": cluster, "cluster": object{"server": c.URL, "certificate-authority-data": c.authority.pem()}}},
		"users":    []object{{"name": user, "user": credentials}},
		"contexts": []object{{"name": context, "context": object{"cluster": cluster, "user": user}}},
	})
}

// Client is a client of the API server for Admin, from where the test runs.
func (c *Cluster) Client() (dynamic.Interface, error) {
	admin, err := c.Kubeconfig(Admin, Masters)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if c.o.Lab != nil {
		config.Dial = c.o.Lab.Dial
	}
	return dynamic.NewForConfig(config)
}
