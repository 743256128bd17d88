package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const day = 24 * time.Hour

func TestExpiredCertificates(t *testing.T) {
	w := newTarget(t, loopback.Options{})
	w.age(400 * day)
	run(t, w, []trial{{"certificate: expired", "for 30 days an expired certificate may renew and nothing else, then nothing at all " +
		"(authority and certificates are back-dated with the controller's own key; no clock is moved)", expired}})
}

// age gives the controller a certificate authority that is this old.
func (w *target) age(old time.Duration) {
	w.t.Helper()
	w.End(syscall.SIGTERM)
	folder := filepath.Join(w.Data(), "pki")
	if err := os.RemoveAll(folder); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		w.t.Fatal(err)
	}
	begin := time.Now().Add(-old)
	template := func(name string, pathLen int) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(begin.UnixNano() + int64(pathLen)), Subject: pkix.Name{CommonName: name}, NotBefore: begin,
			NotAfter: time.Now().Add(old + day), IsCA: true, BasicConstraintsValid: true, MaxPathLen: pathLen, MaxPathLenZero: pathLen == 0,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	}
	rootKey, key := testca.NewKey(), testca.NewKey()
	root := w.writePair("root.pem", template("nodehitch root", 1), nil, rootKey, rootKey)
	w.writePair("intermediate-old.pem", template("nodehitch intermediate", 0), root, key, rootKey)
	w.Start()
	w.roots = x509.NewCertPool()
	w.roots.AddCert(root)
}

// writePair writes a certificate with its key as the controller keeps them.
func (w *target) writePair(name string, template, parent *x509.Certificate, key, parentKey crypto.Signer) *x509.Certificate {
	w.t.Helper()
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		w.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := os.WriteFile(filepath.Join(w.Data(), "pki", name), text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		w.t.Fatal(err)
	}
	return cert
}

func expired(a *attempt) {
	for name, c := range map[string]struct {
		ago    time.Duration
		renews bool
	}{
		"a minute ago":              {time.Minute, true},
		"three days ago":            {3 * day, true},
		"30 days less a minute ago": {30*day - time.Minute, true},
		"30 days and a minute ago":  {30*day + time.Minute, false},
		"31 days ago":               {31 * day, false},
		"300 days ago":              {300 * day, false},
	} {
		m := a.w.enrolled(a.w.ours, a.w.spare())
		old := a.issuedBy(m, func(x *x509.Certificate) {
			x.NotAfter = time.Now().Add(-c.ago)
			x.NotBefore = x.NotAfter.Add(-25 * time.Hour)
		})
		everything(a, old, name, http.StatusUnauthorized)
		got := old.renew()
		if !c.renews {
			a.refused(name+", renewal", got, http.StatusUnauthorized)
			continue
		}
		a.allowed(name+", renewal", got, http.StatusCreated)
		a.allowed(name+", with the new one", old.config(), http.StatusOK)
	}
	m := a.w.enrolled(a.w.ours, a.w.spare())
	a.w.revoke(m.id)
	old := a.issuedBy(m, func(x *x509.Certificate) { x.NotBefore, x.NotAfter = time.Now().Add(-4*day), time.Now().Add(-3*day) })
	a.refused("expired and revoked, renewal", old.renew(), http.StatusForbidden)
}
