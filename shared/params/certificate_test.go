package params_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/params"
)

// pemCertificate is a certificate of subject, signed by issuer's name, valid from
// a year before until after today.
func pemCertificate(t *testing.T, subject, issuer string, ca bool, from, until time.Duration) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject},
		NotBefore: today.Add(from), NotAfter: today.Add(until),
		IsCA: ca, BasicConstraintsValid: true,
	}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: issuer}}
	if issuer == subject {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestCertificates(t *testing.T) {
	const year = 365 * 24 * time.Hour
	good := pemCertificate(t, "ca", "ca", true, -year, year)
	second := pemCertificate(t, "second", "second", true, -year, year)
	block, _ := pem.Decode([]byte(good))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("hunter2")}))
	for name, test := range map[string]struct{ content, fault, warning string }{
		"one":                             {content: good},
		"two, with text between":          {content: "# ours\n" + good + "\ntheirs:\n" + pemCertificate(t, "b", "b", true, -year, year) + "\n"},
		"joined without a line break":     {content: strings.TrimSpace(good) + strings.TrimSpace(second) + good, fault: "number 1 in line 1, that other programs pass over"},
		"a byte order mark":               {content: "\ufeff" + good + second, fault: "number 1 in line 1, that other programs pass over"},
		"a byte order mark of the second": {content: good + "\ufeff" + second + good, fault: "number 2 in line 10"},
		"joined to a key":                 {content: strings.TrimSpace(good) + key, fault: "holds a private key"},
		"the first of two is cut off":     {content: good[:len(good)-40] + "\n" + good, fault: "number 1 in line 1, that is damaged or cut off"},
		"of an intermediate CA":           {content: pemCertificate(t, "sub", "ca", true, -year, year)},
		"of a server, itself":             {content: pemCertificate(t, "registry", "registry", false, -year, year)},
		"of a server":                     {content: pemCertificate(t, "registry", "ca", false, -year, year), warning: `"CN=registry", which is not that of a CA`},
		"expired":                         {content: pemCertificate(t, "old", "old", true, -2*year, -year), warning: `"CN=old", which expired on 2025-05-01T12:00:00Z`},
		"not yet valid":                   {content: pemCertificate(t, "new", "new", true, year, 2*year), warning: `"CN=new", which is not valid before`},
		"empty":                           {content: "", fault: "holds no PEM certificate"},
		"a text":                          {content: "hello", fault: "holds no PEM certificate"},
		"DER":                             {content: string(block.Bytes), fault: "DER form"},
		"a key":                           {content: key, fault: "holds a private key"},
		"a certificate and a key":         {content: good + key, fault: "holds a private key"},
		"a key that is cut off":           {content: good + "-----BEGIN PRIVATE KEY-----\nhunter2\n", fault: "holds a private key"},
		"cut off":                         {content: good[:len(good)-40], fault: "damaged or cut off"},
		"another block":                   {content: good + string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte{1}})), fault: `type "X509 CRL"`},
		"no X.509":                        {content: good + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1, 2}})), fault: "number 2, that is no X.509 certificate"},
		"too large":                       {content: good + strings.Repeat("#", 1<<20), fault: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := check(t, params.UseCertificate, test.content, nil)
			expect(t, "faults", faults, test.fault)
			expect(t, "warnings", warnings, test.warning)
			if strings.Contains(faults, "hunter2") {
				t.Error("the key is repeated")
			}
		})
	}
}
