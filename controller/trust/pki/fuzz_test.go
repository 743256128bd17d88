package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// FuzzCertificateRequest signs whatever is taken for a request and asserts that
// the certificate is a client's, of the node that the controller named, whatever
// the request asked for.
func FuzzCertificateRequest(f *testing.F) {
	w := newWorld(f)
	key := testca.NewKey()
	for _, template := range []*x509.CertificateRequest{{}, {DNSNames: []string{"controller.example"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}} {
		f.Add(requestPEM(key, template))
	}
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		hash, hashErr := RequestKeyHash(request)
		chain, serial, _, err := w.SignNode(nodeID, request)
		if err != nil {
			var invalid *RequestError
			if !errors.As(err, &invalid) || strings.ContainsAny(invalid.Message, "\n\x00") {
				t.Errorf("refused with %q", err)
			}
			return
		}
		block, _ := pem.Decode([]byte(chain))
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		clientOnly := len(cert.ExtKeyUsage) == 1 && cert.ExtKeyUsage[0] == x509.ExtKeyUsageClientAuth
		if cert.IsCA || !clientOnly || len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses) > 0 {
			t.Errorf("signed %+v", cert)
		}
		if id, number, err := w.VerifyNode([]*x509.Certificate{cert}, w.now, false); err != nil || id != nodeID || number != serial {
			t.Errorf("it is the certificate %s of %s, %v", number, id, err)
		}
		if hashErr != nil || len(hash) != 64 {
			t.Errorf("key hash %q, %v", hash, hashErr)
		}
	})
}
