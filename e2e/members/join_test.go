package members

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/role/clustermember"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// facts is what a machine has in its cluster.json.
type facts struct {
	Role     api.Role
	ServerID string
	api.ClusterSection
}

// read waits until the file has what enough asks for.
func read(ctx context.Context, m *sitetest.Machine, enough func(facts) bool) (f facts, err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		content, failed := m.Pull(ctx, clustermember.File)
		if failed == nil {
			failed = json.Unmarshal(content, &f)
		}
		if failed == nil && enough(f) {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return f, errors.Join(fmt.Errorf("%s has %+v", clustermember.File, f.CACertificateHash), failed, ctx.Err())
		case <-tick.C:
		}
	}
}

// join does what kubeadm init and join, and the kubelet that they sitetest.PhaseStart, do with the API
// server and etcd, by the machine's file.
func (w *cluster) join(ctx context.Context, m *sitetest.Machine) error {
	f, err := read(ctx, m, func(f facts) bool { return f.Initialize || f.CACertificateHash != "" })
	if err != nil {
		return err
	}
	if f.ServerID != m.ServerID() {
		return fmt.Errorf("%s is for the server %s", clustermember.File, f.ServerID)
	}
	var kubelet []byte
	if f.Initialize {
		kubelet, err = w.kube.Kubeconfig("system:node:"+m.Name(), "system:nodes")
	} else {
		kubelet, err = w.bootstrap(ctx, m, f)
	}
	if err != nil {
		return err
	}
	if f.Role == api.RoleMaster {
		if err := w.controlPlane(ctx, m, f); err != nil {
			return err
		}
	}
	if err := m.Push(ctx, clustermember.Kubeconfig, 0o600, kubelet); err != nil {
		return err
	}
	return w.register(ctx, m, kubelet)
}

// controlPlane is what a master has besides: the administrator's kubeconfig, and etcd.
func (w *cluster) controlPlane(ctx context.Context, m *sitetest.Machine, f facts) error {
	admin, err := w.kube.Kubeconfig(kube.Admin, kube.Masters)
	if err != nil {
		return err
	}
	if err := w.startEtcd(ctx, m, f); err != nil {
		return err
	}
	return m.Push(ctx, "/etc/kubernetes/admin.conf", 0o600, admin)
}

// bootstrap gets kubelet's certificate with the machine's bootstrap token, once the cluster's
// authority is the one that the file names.
func (w *cluster) bootstrap(ctx context.Context, m *sitetest.Machine, f facts) ([]byte, error) {
	sum := sha256.Sum256(w.kube.CA().RawSubjectPublicKeyInfo)
	if now := "sha256:" + hex.EncodeToString(sum[:]); now != f.CACertificateHash {
		return nil, fmt.Errorf("the authority of the cluster is %s, the file has %s", now, f.CACertificateHash)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	user := "system:node:" + m.Name()
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		return nil, err
	}
	content, err := w.kube.KubeconfigOf("bootstrap", f.BootstrapToken)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": m.Name()},
		"spec": map[string]any{
			"request":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": []string{"digital signature", "client auth"},
		},
	})
	if err != nil {
		return nil, err
	}
	// The owner makes the token valid once it is told of the machine.
	if err := w.asKubelet(ctx, m, content, string(manifest), "create", "--filename", "-"); err != nil {
		return nil, err
	}
	if _, err := w.kube.Kubectl(ctx, "certificate", "approve", m.Name()); err != nil {
		return nil, err
	}
	var certificate []byte
	if err := retry(ctx, func() error {
		text, err := w.kube.Kubectl(ctx, "get", "csr", m.Name(), "-o", "json")
		var signed struct{ Status struct{ Certificate []byte } }
		err = errors.Join(err, json.Unmarshal([]byte(text), &signed))
		if certificate = signed.Status.Certificate; err == nil && len(certificate) == 0 {
			err = errors.New("the certificate is not signed")
		}
		return err
	}); err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return w.kube.KubeconfigWith(user, certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// asKubelet runs kubectl with a kubeconfig of the machine until it succeeds.
func (w *cluster) asKubelet(ctx context.Context, m *sitetest.Machine, kubeconfig []byte, stdin string, args ...string) error {
	file := filepath.Join(w.Lab.Dir(), m.Name()+".conf")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	return retry(ctx, func() error {
		_, err := w.kube.KubectlAs(ctx, file, stdin, args...)
		if err != nil && strings.Contains(err.Error(), "AlreadyExists") {
			return nil // of an attempt before
		}
		return err
	})
}

// register makes the machine's Node with a status that says Ready, as its kubelet.
func (w *cluster) register(ctx context.Context, m *sitetest.Machine, kubelet []byte) error {
	info := map[string]string{"systemUUID": m.ServerID()}
	for _, name := range []string{"machineID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"} {
		info[name] = ""
	}
	node, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]string{"name": m.Name()},
		"status": map[string]any{
			"nodeInfo":   info,
			"addresses":  []map[string]string{{"type": "InternalIP", "address": m.Address().String()}},
			"conditions": []map[string]string{{"type": "Ready", "status": "True", "reason": "KubeletReady"}},
		},
	})
	if err != nil {
		return err
	}
	if err := w.asKubelet(ctx, m, kubelet, string(node), "create", "--filename", "-"); err != nil {
		return err
	}
	w.hands.up(m.Name())
	return nil
}

// retry calls f until it succeeds or ctx ends.
func retry(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}
