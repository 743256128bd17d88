package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestCertificateRequests(t *testing.T) {
	w := newTarget(t, loopback.Options{})
	run(t, w, []trial{
		{"CSR: another identity, a CA, a server", "the certificate has the node's id and is for a client and one day, whatever the request asks for, at enrollment and at renewal", greedyRequests},
		{"CSR: a node makes certificates itself", "a certificate that a node signs is refused", ownIssuer},
		{"CSR: weak and foreign keys", "RSA below 3072, P-224, P-521, secp256k1, Ed448, DSA, MD5 and SHA-1 are refused at enrollment and at renewal; the next good request is accepted", weakKeys},
		{"CSR: another key", "a request that was not signed with its own key is refused", wrongSignature},
		{"CSR: garbage", "a body that is no PKCS#10 is answered 400, and the server can still enroll", garbage},
	})
}

// wishes are requests for more than a node gets.
func wishes(t testing.TB, another string) map[string]*x509.CertificateRequest {
	uri, err := url.Parse("urn:nodehitch:node:" + another)
	if err != nil {
		t.Fatal(err)
	}
	extension := func(id asn1.ObjectIdentifier, value any) pkix.Extension {
		der, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return pkix.Extension{Id: id, Critical: true, Value: der}
	}
	return map[string]*x509.CertificateRequest{
		"another node's name": {Subject: pkix.Name{CommonName: another, Organization: []string{"system:masters"}}},
		"another node's URI":  {URIs: []*url.URL{uri}},
		"the controller's names": {DNSNames: []string{"localhost", "controller.example"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, EmailAddresses: []string{"root@example.com"}},
		"to be a CA": {ExtraExtensions: []pkix.Extension{
			extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ IsCA bool }{true}),
			extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0x06}, BitLength: 7})}}, // keyCertSign, cRLSign
		"to be a server": {ExtraExtensions: []pkix.Extension{
			extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 1}, {2, 5, 29, 37, 0}})}},
	}
}

func greedyRequests(a *attempt) {
	// A storage server's configuration is known by its volume.
	if storage := a.w.enrolled(a.w.other, a.w.other.storage).config(); !strings.Contains(storage.body, a.w.other.volume) {
		a.Fatalf("a storage server's configuration does not name its volume %s: %.300s", a.w.other.volume, storage.body)
	}
	m := a.w.boot(a.w.spare())
	for name, wish := range wishes(a, a.w.ours.storage) {
		// The same key again is the same machine.
		got := m.enroll(a.w.ours.token, wish)
		a.allowed(name, got, http.StatusCreated)
		isOnlyItself(a, name, m)
	}
	for name, wish := range wishes(a, a.w.ours.storage) {
		key := testca.NewKey()
		a.allowed(name, m.take(m.renewWith(testca.Request(key, wish)), key), http.StatusCreated)
		isOnlyItself(a, name+", at renewal", m)
		config := m.config()
		a.allowed("with it", config, http.StatusOK)
		if strings.Contains(config.body, a.w.ours.volume) {
			a.c.Unauthorised(1)
			a.Errorf("%s: got the storage server's configuration", name)
		}
	}
}

// isOnlyItself checks a certificate: one with anything that a node must not have is an
// unauthorised answer.
func isOnlyItself(a *attempt, wish string, m *machine) {
	a.Helper()
	leaf := m.leaf()
	faults := 0
	for fault, found := range map[string]bool{
		"its URIs are " + fmt.Sprint(leaf.URIs):                      len(leaf.URIs) != 1 || leaf.URIs[0].String() != "urn:nodehitch:node:"+m.id,
		"its subject is " + leaf.Subject.String():                    leaf.Subject.String() != "CN="+m.id,
		"it names hosts":                                             len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0,
		"it is a CA":                                                 leaf.IsCA,
		"it signs certificates":                                      leaf.KeyUsage != x509.KeyUsageDigitalSignature,
		"it is for more than clients":                                len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || len(leaf.UnknownExtKeyUsage) > 0,
		"it has " + fmt.Sprint(len(leaf.Extensions)) + " extensions": len(leaf.Extensions) > 5,
		"it lasts until " + leaf.NotAfter.Format(time.RFC3339):       time.Until(leaf.NotAfter) > 24*time.Hour,
		"it is valid from " + leaf.NotBefore.Format(time.RFC3339):    time.Since(leaf.NotBefore) > 70*time.Minute,
		"it is over another key":                                     !publicKey(leaf).Equal(m.key.Public()),
	} {
		if found {
			faults++
			a.Errorf("%s: the certificate is not only the node's: %s", wish, fault)
		}
	}
	a.c.Unauthorised(int64(min(faults, 1)))
}

func publicKey(cert *x509.Certificate) interface{ Equal(crypto.PublicKey) bool } {
	return cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
}

func ownIssuer(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	target := a.w.enrolled(a.w.ours, a.w.ours.storage)
	template := target.leaf()
	key := testca.NewKey()
	itself := &x509.Certificate{Subject: template.Issuer, PublicKey: key.Public(), SubjectKeyId: template.AuthorityKeyId}
	for name, signer := range map[string]struct {
		parent *x509.Certificate
		key    crypto.Signer
	}{"signed by the node": {m.leaf(), m.key}, "signed by itself": {itself, key}} {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: template.SerialNumber, Subject: template.Subject, URIs: template.URIs, NotBefore: template.NotBefore,
			NotAfter: template.NotAfter, KeyUsage: template.KeyUsage, ExtKeyUsage: template.ExtKeyUsage,
		}, signer.parent, key.Public(), signer.key)
		if err != nil {
			a.Fatal(err)
		}
		forged := a.w.caller(shows(tls.Certificate{Certificate: append([][]byte{der}, m.certificate.Certificate...), PrivateKey: key}))
		a.refused(name, forged.call(http.MethodGet, "/v1/node/config", ""), http.StatusUnauthorized)
		csr := asJSON(a, map[string]string{"certificateRequest": testca.Request(testca.NewKey(), nil)})
		a.refused(name+", renewal", forged.call(http.MethodPost, "/v1/node/certificate", csr), http.StatusUnauthorized)
	}
	a.allowed("the victim goes on", target.config(), http.StatusOK)
}

func weakKeys(a *attempt) {
	m := a.w.boot(a.w.spare())
	enrolled := a.w.enrolled(a.w.ours, a.w.spare())
	tried := 0
	for name, csr := range requests(a) {
		if strings.HasPrefix(name, "accepted-") {
			a.allowed(name, enrolled.renewWith(csr), http.StatusCreated)
			continue
		}
		tried++
		got := m.enrollWith(a.w.ours.token, csr)
		a.refused(name, got, http.StatusBadRequest)
		if len(got.problem.InvalidParams) != 1 || got.problem.InvalidParams[0].Pointer != "/certificateRequest" {
			a.Errorf("%s: the faults are %+v", name, got.problem.InvalidParams)
		}
		a.refused(name+", renewal", enrolled.renewWith(csr), http.StatusBadRequest)
	}
	if tried == 0 {
		a.Error("no request was tried")
	}
	a.c.Figure("kinds of request", "%d", tried)
	a.allowed("a good key", m.enroll(a.w.ours.token, nil), http.StatusCreated)
	a.allowed("the enrolled one goes on", enrolled.config(), http.StatusOK)
}

func wrongSignature(a *attempt) {
	m := a.w.boot(a.w.spare())
	enrolled := a.w.enrolled(a.w.ours, a.w.spare())
	good, _ := pem.Decode([]byte(testca.Request(m.key, nil)))
	other, _ := pem.Decode([]byte(testca.Request(testca.NewKey(), nil)))
	// The signed part of one request with the signature of another, and with a bit of
	// its own changed.
	var parts, otherParts struct {
		Info      asn1.RawValue
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	for der, into := range map[*pem.Block]any{good: &parts, other: &otherParts} {
		if _, err := asn1.Unmarshal(der.Bytes, into); err != nil {
			a.Fatal(err)
		}
	}
	own := parts.Signature
	parts.Signature = otherParts.Signature
	swapped, err := asn1.Marshal(parts)
	if err != nil {
		a.Fatal(err)
	}
	parts.Signature = asn1.BitString{Bytes: append([]byte{}, own.Bytes...), BitLength: own.BitLength}
	parts.Signature.Bytes[len(own.Bytes)-1] ^= 1
	flipped, err := asn1.Marshal(parts)
	if err != nil {
		a.Fatal(err)
	}
	for name, der := range map[string][]byte{"another's signature": swapped, "a bit of the signature": flipped} {
		csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		a.refused(name, m.enrollWith(a.w.ours.token, csr), http.StatusBadRequest)
		a.refused(name+", renewal", enrolled.renewWith(csr), http.StatusBadRequest)
	}
	a.allowed("with its own signature", m.enroll(a.w.ours.token, nil), http.StatusCreated)
}

func garbage(a *attempt) {
	m := a.w.boot(a.w.spare())
	enrolled := a.w.enrolled(a.w.ours, a.w.spare())
	good := testca.Request(m.key, nil)
	block, _ := pem.Decode([]byte(good))
	armour := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	for name, csr := range map[string]string{
		"nothing":               "",
		"a word":                "x",
		"PEM of nothing":        armour("CERTIFICATE REQUEST", nil),
		"PEM of zeros":          armour("CERTIFICATE REQUEST", make([]byte, 400)),
		"half of one":           armour("CERTIFICATE REQUEST", block.Bytes[:len(block.Bytes)/2]),
		"two":                   good + good,
		"one with a tail":       good + "tail",
		"a request with a tail": armour("CERTIFICATE REQUEST", append(append([]byte{}, block.Bytes...), 0, 0)),
		"a certificate":         armour("CERTIFICATE", enrolled.certificate.Certificate[0]),
		"a private key":         armour("PRIVATE KEY", block.Bytes),
		"deeply nested":         armour("CERTIFICATE REQUEST", nested(2000)),
		"more than is read":     armour("CERTIFICATE REQUEST", make([]byte, 20_000)),
	} {
		a.refused(name, m.enrollWith(a.w.ours.token, csr), http.StatusBadRequest)
		a.refused(name+", renewal", enrolled.renewWith(csr), http.StatusBadRequest)
	}
	a.allowed("a good one", m.enroll(a.w.ours.token, nil), http.StatusCreated)
}

// nested is a DER sequence within a sequence, and so on.
func nested(depth int) []byte {
	der, _ := asn1.Marshal(big.NewInt(1))
	for range depth {
		next, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSequence, IsCompound: true, Bytes: der})
		if err != nil {
			return der
		}
		der = next
	}
	return der
}
