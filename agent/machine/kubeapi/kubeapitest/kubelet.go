package kubeapitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"testing"
	"time"
)

// KubeletPEM is a kubelet's certificate with its key, as kubelet keeps them in
// /var/lib/kubelet/pki/kubelet-client-current.pem: of this user, good until then.
func KubeletPEM(t testing.TB, user string, until time.Time) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}},
		NotBefore: until.Add(-365 * 24 * time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}))
}

// Node is a Node of a machine whose UUID is this, Ready or not.
func Node(systemUUID string, ready bool, addresses ...string) Object {
	condition := Object{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
	if !ready {
		condition = Object{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
	}
	all := []any{}
	for _, a := range addresses {
		all = append(all, Object{"type": "InternalIP", "address": a})
	}
	return Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{}, "spec": Object{}, "status": Object{
		"nodeInfo": Object{"systemUUID": systemUUID}, "addresses": all,
		"conditions": []any{Object{"type": "MemoryPressure", "status": "False"}, condition},
	}}
}

// EtcdFiles are those of kubeadm's by which a master reaches its etcd, for a server that stands in
// for it: what is in them, by path.
func EtcdFiles(t testing.TB, etcd *httptest.Server) map[string]string {
	pair := KubeletPEM(t, "kube-etcd-healthcheck-client", time.Now().Add(time.Hour))
	const folder = "/etc/kubernetes/pki/etcd/"
	return map[string]string{
		folder + "ca.crt":                 string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: etcd.Certificate().Raw})),
		folder + "healthcheck-client.crt": pair, folder + "healthcheck-client.key": pair,
	}
}
