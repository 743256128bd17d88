package browser

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Browsers and agents share the listener: the name decides which certificate they get.
func TestTheCertificateForBrowsers(t *testing.T) {
	c := results.Begin(t, "browser", "a certificate that browsers know", "browsers get it by its name, a renewed one without a restart; agents get the controller's own and enroll")
	const name = "nodehitch.example"
	dir := t.TempDir()
	known := testca.Root(t, "an authority that browsers know")
	put := func() {
		t.Helper()
		pair := known.Server(t, time.Now().Add(time.Hour), name)
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		var chain []byte
		for _, der := range pair.Certificate {
			chain = append(chain, testca.Encode(der)...)
		}
		for file, text := range map[string][]byte{"chain.pem": chain, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put()
	w := &controller{t: t, Controller: loopback.Open(t, loopback.Options{Settings: map[string]string{
		"uiCertificate": fmt.Sprintf("{names: [%s], file: %s/chain.pem, key: %s/key.pem}", name, dir, dir)}})}
	browsers, agents := x509.NewCertPool(), x509.NewCertPool()
	browsers.AppendCertsFromPEM(known.PEM())
	agents.AppendCertsFromPEM([]byte(w.Trust().RootCertificate))
	serial := func(name string, roots *x509.CertPool) string {
		t.Helper()
		dialer := &tls.Dialer{Config: &tls.Config{ServerName: name, RootCAs: roots}}
		conn, err := dialer.DialContext(t.Context(), "tcp", w.URL[len("https://"):])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial(name, browsers)
	serial("127.0.0.1", agents)
	serial("localhost", agents)
	put()
	if serial(name, browsers) == first {
		t.Error("the renewed certificate is not served")
	}
	w.fleet(1)
	c.Unauthorised(0)
}
