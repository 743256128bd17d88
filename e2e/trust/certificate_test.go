package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestCertificates(t *testing.T) {
	w := newTarget(t, loopback.Options{})
	run(t, w, []trial{
		{"certificate: TLS below 1.3", "a handshake of TLS 1.0 to 1.2 fails, also with a good certificate", oldTLS},
		{"certificate: none", "no southbound request without one is answered", noCertificate},
		{"certificate: of a foreign CA", "a certificate for a node's name from a foreign CA is refused, with and without its chain", foreignCertificate},
		{"certificate: without its key", "a node's certificate, which is not secret, is refused without its key", stolenCertificate},
		{"certificate: the controller's own", "the controller's server certificate, intermediate and root are refused as a node's", controllersOwn},
		{"certificate: of another purpose", "a certificate of our own intermediate for servers, without a name, with another URI, with two URIs, or with another serial is refused", misissued},
		{"certificate: plain HTTP", "the port answers no request in plain text", plainHTTP},
	})
}

func oldTLS(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	for name, version := range map[string]uint16{"TLS 1.0": tls.VersionTLS10, "TLS 1.1": tls.VersionTLS11, "TLS 1.2": tls.VersionTLS12} {
		old := func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, version }
		a.hungUp(name, a.w.caller(old, shows(m.certificate)).call(http.MethodGet, "/v1/node/config", ""))
		a.hungUp(name+", open path", a.w.caller(old).call(http.MethodGet, "/healthz", ""))
	}
	a.allowed("TLS 1.3", m.config(), http.StatusOK)
}

func noCertificate(a *attempt) {
	everything(a, a.w.boot(a.w.ours.storage), "without a certificate", http.StatusUnauthorized)
	a.refused("renewal", a.w.boot(a.w.ours.storage).renew(), http.StatusUnauthorized)
}

func foreignCertificate(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	root := testca.Root(a, "nodehitch root")
	forger := root.Intermediate(a)
	forged := forger.Issue(a, m.leaf())
	leaf := forged.Certificate[0]
	for name, chain := range map[string][][]byte{
		"alone":                      {leaf},
		"with its chain":             {leaf, forger.Cert.Raw, root.Cert.Raw},
		"with ours beside it":        {leaf, m.certificate.Certificate[1]},
		"before the real one's leaf": {leaf, m.certificate.Certificate[0], m.certificate.Certificate[1]},
	} {
		other := *m
		other.caller = a.w.caller(shows(tls.Certificate{Certificate: chain, PrivateKey: forged.PrivateKey}))
		everything(a, &other, name, http.StatusUnauthorized)
		a.refused(name+", renewal", other.renew(), http.StatusUnauthorized)
	}
}

func stolenCertificate(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	thief := a.w.caller(shows(tls.Certificate{Certificate: m.certificate.Certificate, PrivateKey: testca.NewKey()}))
	a.hungUp("the certificate with another key", thief.call(http.MethodGet, "/v1/node/config", ""))
	csr := asJSON(a, map[string]string{"certificateRequest": testca.Request(testca.NewKey(), nil)})
	a.hungUp("its renewal", thief.call(http.MethodPost, "/v1/node/certificate", csr))
}

// pki is a pair of the controller's data directory, read as root of its machine.
func (w *target) pki(name string) (cert *x509.Certificate, key crypto.Signer, certificate tls.Certificate) {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.Data(), "pki", name))
	if err != nil || len(paths) != 1 {
		w.t.Fatalf("%s: %v, %v", name, paths, err)
	}
	content, err := os.ReadFile(paths[0])
	if err != nil {
		w.t.Fatal(err)
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certificate.Certificate = append(certificate.Certificate, block.Bytes)
			continue
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		key = parsed.(crypto.Signer)
	}
	if cert, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
		w.t.Fatal(err)
	}
	certificate.PrivateKey = key
	return cert, key, certificate
}

func controllersOwn(a *attempt) {
	for _, name := range []string{"server.pem", "intermediate-*.pem", "root.pem"} {
		_, _, certificate := a.w.pki(name)
		m := a.w.boot(a.w.ours.storage)
		m.caller = a.w.caller(shows(certificate))
		everything(a, m, name, http.StatusUnauthorized)
		a.refused(name+", renewal", m.renew(), http.StatusUnauthorized)
	}
}

// issuedBy is the machine with a certificate that the controller's intermediate has
// signed: the node's own, changed by change.
func (a *attempt) issuedBy(m *machine, change func(*x509.Certificate)) *machine {
	a.Helper()
	parent, key, _ := a.w.pki("intermediate-*.pem")
	leaf := m.leaf()
	template := &x509.Certificate{SerialNumber: leaf.SerialNumber, Subject: leaf.Subject, URIs: leaf.URIs, NotBefore: leaf.NotBefore,
		NotAfter: leaf.NotAfter, KeyUsage: leaf.KeyUsage, ExtKeyUsage: leaf.ExtKeyUsage}
	change(template)
	changed := *m
	cert := a.sign(template, parent, m.key.Public(), key)
	changed.certificate = tls.Certificate{Certificate: [][]byte{cert.Raw, parent.Raw}, PrivateKey: m.key}
	changed.caller = a.w.caller(shows(changed.certificate))
	return &changed
}

// sign makes a certificate with any key.
func (a *attempt) sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	a.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		a.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return cert
}

func misissued(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	a.allowed("a copy that is right", a.issuedBy(m, func(*x509.Certificate) {}).config(), http.StatusOK)
	for name, change := range map[string]func(*x509.Certificate){
		"for servers":   func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		"without a URI": func(c *x509.Certificate) { c.URIs = nil },
		"with two URIs": func(c *x509.Certificate) { c.URIs = append(c.URIs[:1:1], c.URIs[0]) },
		"with a foreign URI": func(c *x509.Certificate) {
			uri := *c.URIs[0]
			uri.Opaque = "other:node:" + m.id
			c.URIs = append(c.URIs[:0:0], &uri)
		},
		"with another serial": func(c *x509.Certificate) {
			c.SerialNumber = new(big.Int).Add(c.SerialNumber, big.NewInt(1))
		},
		"not good yet": func(c *x509.Certificate) { c.NotBefore = time.Now().Add(10 * time.Minute) },
	} {
		wrong := a.issuedBy(m, change)
		everything(a, wrong, name, http.StatusUnauthorized)
		a.refused(name+", renewal", wrong.renew(), http.StatusUnauthorized)
	}
	a.allowed("the right one goes on", m.config(), http.StatusOK)
}

func plainHTTP(a *attempt) {
	m := a.w.boot(a.w.ours.storage)
	m.base = strings.Replace(a.w.URL, "https://", "http://", 1)
	for _, path := range []string{"/healthz", "/v1/nodes", "/v1/node/config", "/v1/agent/amd64"} {
		got := m.call(http.MethodGet, path, "")
		if got.err != nil {
			a.Errorf("%s got no answer: %v", path, got.err)
			continue
		}
		a.asked++
		a.c.Unauthorised(0)
		if got.status < 400 {
			a.c.Unauthorised(1)
			a.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}
