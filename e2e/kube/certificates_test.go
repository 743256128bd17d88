package kube

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestServerCertificateNamesWhatClientsCall(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.issue(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, "10.10.0.1", "fd00::1", "master")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"10.10.0.1": true, "fd00::1": true, "master": true, "10.10.0.2": false, "other": false} {
		_, err := server.Leaf.Verify(x509.VerifyOptions{Roots: a.pool(), DNSName: name})
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Programs that read kubeadm's file can read ours: one user with a certificate.
func TestKubeconfigIsWhatKubeadmWrites(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&Cluster{URL: "https://10.10.0.1:6443", authority: a}).Kubeconfig(Admin, Masters)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Cluster struct {
				Server    string
				Authority []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &got); err != nil || len(got.Clusters) != 1 || len(got.Users) != 1 {
		t.Fatalf("%v:\n%s", err, text)
	}
	if got.CurrentContext != "kubernetes-admin@kubernetes" || got.Clusters[0].Cluster.Server != "https://10.10.0.1:6443" {
		t.Errorf("context %q, server %q", got.CurrentContext, got.Clusters[0].Cluster.Server)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(got.Clusters[0].Cluster.Authority) {
		t.Error("there is no authority")
	}
	pair, err := tls.X509KeyPair(got.Users[0].User.Certificate, got.Users[0].User.Key)
	if err != nil || pair.Leaf.Subject.CommonName != Admin || pair.Leaf.Subject.Organization[0] != Masters {
		t.Errorf("the user: %v, %v", pair.Leaf, err)
	}
}
