package persistentvolume_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// with is the kubeconfig with another user.
func (r *rig) with(user string) string {
	return strings.Replace(r.api.kubeconfig(), "user: {token: "+token+"}", "user: {"+user+"}", 1)
}

// kubeadm renews certificates by writing the file anew, k3s and others by writing the
// files that it names.
func TestARenewedCredentialCountsAtTheNextPass(t *testing.T) {
	for name, c := range map[string]struct{ file, kubeconfig string }{
		"in the kubeconfig":    {"/etc/kubernetes/admin.conf", ""},
		"in a file of its own": {"/var/lib/token", "tokenFile: /var/lib/token"},
		"beside it":            {"/etc/kubernetes/pki/token", "tokenFile: pki/token"},
	} {
		t.Run(name, func(t *testing.T) {
			r := master(t, "pv1")
			content := func(token string) string { return token + "\n" }
			if c.kubeconfig == "" {
				content = func(token string) string { return r.with("token: " + token) }
			} else {
				r.setKubeconfig(r.with(c.kubeconfig))
				r.expect("False ClusterNotInstalled", "names "+c.file+", which does not exist")
			}
			put := func(token string) { r.m.Files[c.file] = hosttest.FileState{Content: content(token)} }
			put("first")
			r.expect("False ClusterNotInstalled", "does not accept the credentials of /etc/kubernetes/admin.conf")
			put(token)
			r.expect("True Registered")
			put("third")
			r.expect("False ClusterNotInstalled", "does not accept the credentials")
			put(token)
			r.expect("True Registered")
			r.did("apply pv1")
		})
	}
}

// A year after kubeadm init: the API server says no more than Unauthorized.
func TestACertificateThatHasExpiredIsSaid(t *testing.T) {
	root := testca.Root(t, "kubernetes")
	for name, c := range map[string]struct {
		ends time.Time
		says string
	}{
		"expired": {time.Now().Add(-36 * time.Hour), "admin.conf, whose certificate expired on " + time.Now().Add(-36*time.Hour).UTC().Format(time.DateOnly)},
		"valid":   {time.Now().Add(36 * time.Hour), "the credentials of /etc/kubernetes/admin.conf: Unauthorized; renew them"},
	} {
		t.Run(name, func(t *testing.T) {
			r := master(t)
			r.setKubeconfig(r.with(credentials(t, root.Server(t, c.ends, "kubernetes-admin"))))
			r.expect("False ClusterNotInstalled", c.says, "kubeadm certs renew admin.conf")
		})
	}
}

// credentials are those of a user in a kubeconfig.
func credentials(t *testing.T, pair tls.Certificate) string {
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	return "client-certificate-data: " + encode(testca.Encode(pair.Certificate[0])) +
		", client-key-data: " + encode(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

// A 403 of RBAC is about the kubeconfig, a 403 of admission about the manifest.
func TestWhoRefusesIsTold(t *testing.T) {
	refusal := func(status int, reason, message string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { refuse(w, status, reason, message) }
	}
	const rbac = `persistentvolumes "pv1" is forbidden: User "reader" cannot patch resource "persistentvolumes" in API group "" at the cluster scope`
	for name, c := range map[string]struct {
		refusal  func(http.ResponseWriter)
		want     string
		says     string
		terminal bool
	}{
		"RBAC":      {refusal(403, "Forbidden", rbac), "False ClusterNotInstalled", "the user of /etc/kubernetes/admin.conf is not allowed to get, list, create, patch and delete persistentvolumes: ", false},
		"admission": {refusal(403, "Forbidden", `admission webhook "w" denied the request: no NFS here`), "False ManifestRejected", "PersistentVolume pv1: admission webhook", true},
		"too large": {refusal(413, "RequestEntityTooLarge", "limit is 3145728"), "False ManifestRejected", "PersistentVolume pv1", true},
		"schema":    {refusal(500, "", "failed to create typed patch object (/pv1; /v1, Kind=PersistentVolume): .spec.x: field not declared in schema"), "False ManifestRejected", "PersistentVolume pv1", true},
		"the store": {refusal(500, "", "etcdserver: request timed out"), "False ClusterNotInstalled", "the API server failed: etcdserver", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, there := range []bool{false, true} {
				r := master(t, "pv1")
				request := "apply pv1"
				if there {
					r.expect("True Registered")
					r.api.change("pv1", func(object) {})
					request = "try pv1"
				}
				r.api.refusal[request] = c.refusal
				if report := r.expect(c.want, c.says); (report.FailedCondition != "") != c.terminal {
					t.Errorf("there is one: %v, terminal: %q", there, report.FailedCondition)
				}
			}
		})
	}
}

// A webhook that keeps volumes from being deleted is neither the kubeconfig's fault nor a
// manifest's.
func TestADeletionThatAdmissionRefuses(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.api.refusal["delete pv1"] = func(w http.ResponseWriter) {
		refuse(w, http.StatusForbidden, "Forbidden", `admission webhook "w" denied the request: ask first`)
	}
	r.manifests()
	r.expect("Unknown InternalError", "ask first")
	r.absent()
	r.expect("Unknown InternalError", "ask first")
}

func TestAnAPIServerOfAnIPv6Address(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	r := master(t, "pv1")
	other := &httptest.Server{Listener: l, Config: &http.Server{Handler: r.api, ReadHeaderTimeout: time.Minute}}
	other.StartTLS()
	t.Cleanup(other.Close)
	r.setKubeconfig(strings.Replace(r.api.kubeconfig(), r.api.URL, other.URL, 1))
	r.expect("True Registered")
	r.did("apply pv1")
}
