package trust

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// answer is what a caller got: a response, or the error that there was none.
type answer struct {
	status  int
	header  http.Header
	body    string
	problem api.Problem
	err     error
}

// caller calls the controller like a machine of its own, without the product's code, on one
// kept connection if possible.
type caller struct {
	t    testing.TB
	base string
	http *http.Client
}

// caller trusts the controller and shows no certificate; change alters that.
func (w *target) caller(change ...func(*tls.Config)) *caller {
	config := &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS12}
	for _, c := range change {
		c(config)
	}
	transport := &http.Transport{TLSClientConfig: config, DialContext: w.dial}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: w.t, base: w.URL, http: &http.Client{Transport: transport}}
}

// shows makes the caller present a certificate.
func shows(certificate tls.Certificate) func(*tls.Config) {
	return func(c *tls.Config) {
		// Whatever authorities the server names.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
}

// call sends one request. A header is "Name: value".
func (c *caller) call(method, path, body string, headers ...string) answer {
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, body: string(text), err: err}
	_ = json.Unmarshal(text, &a.problem) // if it is no problem it stays empty
	return a
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// machine is a VM with a key of its own, and a certificate once it has enrolled.
type machine struct {
	*caller
	w           *target
	id          string
	key         crypto.Signer
	certificate tls.Certificate
}

// boot is a machine that claims to be this server.
func (w *target) boot(id string) *machine {
	return &machine{caller: w.caller(), w: w, id: id, key: testca.NewKey()}
}

// enrolled is a machine that has enrolled as this server.
func (w *target) enrolled(s stack, id string) *machine {
	w.t.Helper()
	m := w.boot(id)
	if a := m.enroll(s.token, nil); a.status != http.StatusCreated {
		w.t.Fatalf("enrolling %s: %d %s (%v)", id, a.status, a.body, a.err)
	}
	return m
}

// enroll redeems a token, and uses the certificate from then on.
func (m *machine) enroll(token string, template *x509.CertificateRequest) answer {
	m.t.Helper()
	return m.take(m.enrollWith(token, testca.Request(m.key, template)), m.key)
}

// enrollWith sends any request, and does not use what comes.
func (m *machine) enrollWith(token, csr string) answer {
	m.t.Helper()
	return m.w.caller().call(http.MethodPost, "/v1/enroll", asJSON(m.t, api.EnrollRequest{ServerID: m.id, CertificateRequest: csr}), bearer(token))
}

// renew asks for a certificate over a new key, by the one in use, and uses it.
func (m *machine) renew() answer {
	m.t.Helper()
	key := testca.NewKey()
	return m.take(m.renewWith(testca.Request(key, nil)), key)
}

// renewWith sends any request, and does not use what comes.
func (m *machine) renewWith(csr string) answer {
	m.t.Helper()
	return m.call(http.MethodPost, "/v1/node/certificate", asJSON(m.t, api.CertificateRequest{CertificateRequest: csr}))
}

// take makes an issued certificate the machine's.
func (m *machine) take(a answer, key crypto.Signer) answer {
	m.t.Helper()
	if a.status == http.StatusCreated {
		var issued api.IssuedCertificate
		err := json.Unmarshal([]byte(a.body), &issued)
		if err == nil {
			m.key = key
			m.certificate, err = testca.Identity(issued.Certificate, key)
		}
		if err != nil {
			m.t.Fatalf("%v in %s", err, a.body)
		}
		m.caller = m.w.caller(shows(m.certificate))
	}
	return a
}

func (m *machine) leaf() *x509.Certificate {
	m.t.Helper()
	leaf, err := x509.ParseCertificate(m.certificate.Certificate[0])
	if err != nil {
		m.t.Fatal(err)
	}
	return leaf
}

func (m *machine) config() answer { return m.call(http.MethodGet, "/v1/node/config", "") }

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
