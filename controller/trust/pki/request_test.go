package pki

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestNodeCertificateIsOnlyWhatWeDecide(t *testing.T) {
	w := newWorld(t)
	caBit, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	uri, _ := url.Parse(api.NodeURN + "another-node")
	text, serial, notAfter, err := w.SignNode(nodeID, requestPEM(testca.NewKey(), &x509.CertificateRequest{
		Subject:         pkix.Name{CommonName: "root", Organization: []string{"system:masters"}},
		DNSNames:        []string{"controller.example"},
		IPAddresses:     []net.IP{net.IPv4(192, 0, 2, 1)},
		URIs:            []*url.URL{uri},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: caBit}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	leaf := parseChain(t, text)[0]
	got := map[string]any{
		"subject": leaf.Subject.String(), "uris": len(leaf.URIs), "uri": leaf.URIs[0].String(),
		"dns": len(leaf.DNSNames), "ip": len(leaf.IPAddresses), "ca": leaf.IsCA,
		"usage": leaf.KeyUsage, "extended": len(leaf.ExtKeyUsage), "extended[0]": leaf.ExtKeyUsage[0],
		"notBefore": leaf.NotBefore, "notAfter": leaf.NotAfter,
	}
	want := map[string]any{
		"subject": "CN=" + nodeID, "uris": 1, "uri": "urn:nodehitch:node:" + nodeID,
		"dns": 0, "ip": 0, "ca": false,
		"usage": x509.KeyUsageDigitalSignature, "extended": 1, "extended[0]": x509.ExtKeyUsageClientAuth,
		"notBefore": w.now.Add(-time.Hour), "notAfter": w.now.Add(24 * time.Hour),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !notAfter.Equal(leaf.NotAfter) || serial != serialText(leaf.SerialNumber) || leaf.SerialNumber.BitLen() < 120 {
		t.Errorf("serial %s, until %s", serial, notAfter)
	}
	if id, _, err := w.VerifyNode([]*x509.Certificate{leaf}, w.now, false); id != nodeID {
		t.Errorf("it verifies as %q: %v", id, err)
	}
}

func TestKeysOfRequests(t *testing.T) {
	w := newWorld(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  crypto.Signer
		says string
	}{
		"ECDSA P-256": {testca.NewKey(), ""},
		"ECDSA P-384": {newECKey(t, elliptic.P384()), ""},
		"ECDSA P-224": {newECKey(t, elliptic.P224()), "P-224"},
		"ECDSA P-521": {newECKey(t, elliptic.P521()), "P-521"},
		"Ed25519":     {ed, ""},
		"RSA 2048":    {weak, "2048 bits"},
		"RSA 3072":    {strong, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := requestPEM(c.key, nil)
			text, _, _, err := w.SignNode(nodeID, request)
			var invalid *RequestError
			if c.says != "" {
				if !errors.As(err, &invalid) {
					t.Errorf("%v is not a RequestError", err)
				}
				wantError(t, err, c.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			leaf := parseChain(t, text)[0]
			if _, _, err := w.VerifyNode([]*x509.Certificate{leaf}, w.now, false); err != nil {
				t.Error(err)
			}
			sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
			if hash, err := RequestKeyHash(request); hash != hex.EncodeToString(sum[:]) {
				t.Errorf("the hash of the key is %s, %v", hash, err)
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	good := requestPEM(testca.NewKey(), nil)
	block, _ := pem.Decode(good)
	tampered := append([]byte(nil), block.Bytes...)
	tampered[len(tampered)-1] ^= 1
	chain, _ := w.enrolled(nodeID)
	for name, c := range map[string]struct{ request, says string }{
		"nothing":               {"", "one PEM block"},
		"two requests":          {string(good) + string(good), "one PEM block"},
		"a certificate":         {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw})), "one PEM block"},
		"a stolen public key":   {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: tampered})), "not signed with its own key"},
		"garbage":               {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})), "PKCS #10"},
		"a SHA-1 signature":     {string(requestPEM(testca.NewKey(), &x509.CertificateRequest{SignatureAlgorithm: x509.ECDSAWithSHA1})), "ECDSA-SHA1"},
		"megabytes of anything": {strings.Repeat("x", 1<<20), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := w.SignNode(nodeID, []byte(c.request))
			var invalid *RequestError
			if !errors.As(err, &invalid) {
				t.Errorf("%v is not a RequestError", err)
			}
			wantError(t, err, c.says)
		})
	}
}
