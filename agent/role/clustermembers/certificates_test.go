package clustermembers_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const certificates = "/api/v1/namespaces/kube-system/secrets/kubeadm-certs"

// making is an owner whose cluster nodehitch makes, with two masters and a worker.
func making(t *testing.T) *rig {
	r := owner(t, 3)
	hosttest.Kubernetes("1.34.4")(r.m)
	r.m.Kubernetes.Leaves = func(run hosttest.KubeadmRun) []hosttest.LeftFile {
		key, _ := run.Document("InitConfiguration")["certificateKey"].(string)
		r.api.Put(certificates, sealed(t, key))
		return nil
	}
	r.doc.Kubernetes = &api.KubernetesSection{Version: "1.34.4"}
	r.doc.Cluster = &api.ClusterSection{
		Endpoint: "10.10.0.0:6443", PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", BootstrapToken: token(0), CertificateKey: strings.Repeat("ab", 32),
	}
	r.doc.ClusterMembers.Members[2].Role = api.RoleWorker
	return r
}

// sealed is the Secret as kubeadm makes it.
func sealed(t *testing.T, key string) kubeapitest.Object {
	secret, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce)
	value := base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, []byte("-----BEGIN CERTIFICATE-----"), nil))
	return kubeapitest.Object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": kubeapitest.Object{"ca.crt": value, "ca.key": value}}
}

// uploads are the keys of kubeadm's uploads since it was last asked.
func (r *rig) uploads() (keys []any) {
	for _, run := range r.m.Kubernetes.Runs {
		if run.Verb == "upload-certs" {
			keys = append(keys, run.Document("InitConfiguration")["certificateKey"])
		}
	}
	r.m.Kubernetes.Runs = nil
	return keys
}

func TestMastersWithoutANodeFindTheCertificatesUnderTheirKey(t *testing.T) {
	r := making(t)
	wants := func(when string, n int) {
		t.Helper()
		r.expect("True MembersCurrent")
		if got := r.uploads(); len(got) != n || n > 0 && got[0] != r.doc.Cluster.CertificateKey {
			t.Errorf("%s: uploaded under %q", when, got)
		}
	}
	wants("a master has no Node", 1)
	wants("again", 0)
	r.restart()
	wants("by a new agent", 0)
	r.doc.Cluster.CertificateKey = strings.Repeat("cd", 32)
	wants("the key is another", 1)
	r.api.Remove(certificates)
	wants("they have ended", 1)
	r.node(1, true)
	r.api.Remove(certificates)
	wants("only a worker has no Node", 0)
}

func TestTheCertificatesAreForNobodyElse(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"others make the cluster": func(r *rig) { r.doc.Kubernetes = nil },
		"the master leaves": func(r *rig) {
			r.doc.ClusterDepartures = &api.ClusterDeparturesSection{Members: []api.ClusterServer{{ServerID: id(1), Name: "server-1"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := making(t)
			change(r)
			r.expect("True MembersCurrent")
			if got := r.uploads(); got != nil {
				t.Errorf("uploaded under %q", got)
			}
		})
	}
}

func TestAnUploadThatFailsHoldsUpNothingElse(t *testing.T) {
	r := making(t)
	r.m.Kubernetes.Refuses["upload-certs"] = "error: cannot read ca.key of " + r.doc.Cluster.CertificateKey
	r.expect("False JoinFailed", "cannot read ca.key")
	c := r.pass(true).Condition(api.ConditionClusterMembersCurrent)
	if strings.Contains(c.Message, "abab") {
		t.Errorf("the message has the key: %s", c.Message)
	}
	if r.api.Get(secrets+"token1") == nil || r.api.Get(secrets+"token2") == nil {
		t.Error("the members have no tokens")
	}
	delete(r.m.Kubernetes.Refuses, "upload-certs")
	r.expect("True MembersCurrent")
}
