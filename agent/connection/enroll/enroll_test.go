package enroll_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const server = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"

// signer is the part of a controller that signs; alter may spoil its answer.
type signer struct {
	t        *testing.T
	key      *ecdsa.PrivateKey
	requests []*x509.CertificateRequest
	alter    func(*api.IssuedCertificate) *api.IssuedCertificate // nil result: no answer
	refuse   *api.Problem                                        // the answer, if it is set
}

func newSigner(t *testing.T) (*signer, *link.Link, enroll.Files) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{t: t, key: key}
	root := testca.Root(t, "root")
	http := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	http.TLS = &tls.Config{Certificates: []tls.Certificate{root.Intermediate(t).Server(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	http.Config.ErrorLog = testca.Quiet
	http.StartTLS()
	t.Cleanup(http.Close)
	l, err := link.New(link.Options{URLs: []string{http.URL}, RootPEM: root.PEM(), Pin: client.Pin(root.Cert)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	directory, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s, l, enroll.Files{Directory: directory}
}

func (s *signer) serve(w http.ResponseWriter, r *http.Request) {
	if s.refuse != nil {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(s.refuse.Status)
		_ = json.NewEncoder(w).Encode(s.refuse)
		return
	}
	var req api.EnrollRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	block, _ := pem.Decode([]byte(req.CertificateRequest))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		s.t.Error(err)
	}
	s.requests = append(s.requests, csr)
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(len(s.requests))), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(23 * time.Hour),
		URIs: []*url.URL{{Scheme: "urn", Opaque: "nodehitch:node:" + server}}}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "nodes"}}, csr.PublicKey, s.key)
	if err != nil {
		s.t.Error(err)
	}
	issued := &api.IssuedCertificate{NodeID: server, Certificate: string(testca.Encode(der))}
	if s.alter != nil {
		issued = s.alter(issued)
	}
	if issued == nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(issued)
}

func claim() enroll.Claim { return enroll.Claim{Token: "id.secret", ServerID: server} }

func TestEnroll(t *testing.T) {
	s, l, f := newSigner(t)
	got, err := enroll.Enroll(t.Context(), l, f, claim())
	if err != nil {
		t.Fatal(err)
	}
	if r := s.requests[0]; r.Subject.String() != "" || len(r.DNSNames)+len(r.URIs) != 0 {
		t.Errorf("the request names a subject: %v", r.Subject)
	}
	kept, err := f.Current()
	if err != nil || kept == nil || kept.Serial() != got.Serial() {
		t.Errorf("kept %+v, %v", kept, err)
	}
	// One of 24 hours is over: two thirds are over in 15.
	if got.NodeID() != server {
		t.Errorf("of node %q", got.NodeID())
	}
	if in := time.Until(got.RenewAt()); in < 14*time.Hour || in > 15*time.Hour {
		t.Errorf("renews in %v, want 15 h", in)
	}
}

// The controller gives no reason, so the agent says what to do.
func TestATokenThatIsNotAccepted(t *testing.T) {
	s, l, f := newSigner(t)
	s.refuse = api.NewProblem(api.ProblemUnauthorized, "")
	_, err := enroll.Enroll(t.Context(), l, f, claim())
	if !errors.Is(err, enroll.ErrTokenRefused) || link.Classify(err) != link.Refused {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{"(401)", "join token", "hitchctl get join-token", "/etc/nodehitch/agent.yaml"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
	if strings.Contains(err.Error(), claim().Token) {
		t.Errorf("the error repeats the token: %v", err)
	}
	s.refuse = api.NewProblem(api.ProblemServerNotExpected, "not yet")
	if _, err := enroll.Enroll(t.Context(), l, f, claim()); err == nil || errors.Is(err, enroll.ErrTokenRefused) {
		t.Errorf("another refusal: got %v", err)
	}
}

func TestAnswerThatIsLostIsAskedForWithTheSameKey(t *testing.T) {
	s, l, f := newSigner(t)
	s.alter = func(*api.IssuedCertificate) *api.IssuedCertificate { return nil }
	if _, err := enroll.Enroll(t.Context(), l, f, claim()); err == nil {
		t.Fatal("no error")
	}
	s.alter = nil
	if _, err := enroll.Enroll(t.Context(), l, f, claim()); err != nil {
		t.Fatal(err)
	}
	first, second := s.requests[0].PublicKey.(*ecdsa.PublicKey), s.requests[len(s.requests)-1].PublicKey.(*ecdsa.PublicKey)
	if !first.Equal(second) {
		t.Error("another key: the controller would think it another machine")
	}
}

func TestRenewalHasANewKeyAndKeepsTheOldOne(t *testing.T) {
	s, l, f := newSigner(t)
	old, err := enroll.Enroll(t.Context(), l, f, claim())
	if err != nil {
		t.Fatal(err)
	}
	next, err := enroll.Renew(t.Context(), l, f)
	if err != nil {
		t.Fatal(err)
	}
	if s.requests[0].PublicKey.(*ecdsa.PublicKey).Equal(s.requests[1].PublicKey) {
		t.Error("the key was not renewed")
	}
	current, err1 := f.Current()
	pending, err2 := f.Next()
	if err := errors.Join(err1, err2); err != nil || current.Serial() != old.Serial() || pending.Serial() != next.Serial() {
		t.Fatalf("current %v, next %v, %v", current, pending, err)
	}
	if err := f.Adopt(); err != nil {
		t.Fatal(err)
	}
	current, err1 = f.Current()
	pending, err2 = f.Next()
	if err := errors.Join(err1, err2); err != nil || current.Serial() != next.Serial() || pending != nil {
		t.Errorf("adopted %v, next %v, %v", current, pending, err)
	}
}

func TestAnswersThatAreNotBelieved(t *testing.T) {
	other := string(testca.Encode(testca.Root(t, "x").Server(t, time.Now().Add(time.Hour), "x").Certificate[0]))
	for name, c := range map[string]struct {
		alter func(*api.IssuedCertificate)
		want  string
	}{
		"another node":  {func(i *api.IssuedCertificate) { i.NodeID = "x" }, "for node"},
		"another key's": {func(i *api.IssuedCertificate) { i.Certificate = other }, "does not match"},
		"none":          {func(i *api.IssuedCertificate) { i.Certificate = "" }, "certificate"},
		"a key comes with it": {func(i *api.IssuedCertificate) {
			i.Certificate = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
		}, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s, l, f := newSigner(t)
			s.alter = func(i *api.IssuedCertificate) *api.IssuedCertificate { c.alter(i); return i }
			_, err := enroll.Enroll(t.Context(), l, f, claim())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if kept, err := f.Current(); kept != nil || err != nil {
				t.Errorf("kept %v, %v", kept, err)
			}
		})
	}
}

// The file is cut off at every length: the rest is never accepted as another identity. If
// its key is complete, the next enrollment uses that key, by which the controller knows the
// machine.
func TestIdentityThatIsCutOff(t *testing.T) {
	_, l, f := newSigner(t)
	whole, err := enroll.Enroll(t.Context(), l, f, claim())
	if err != nil {
		t.Fatal(err)
	}
	content, err := f.Directory.Read("identity.pem")
	if err != nil {
		t.Fatal(err)
	}
	keyEnd := strings.Index(string(content), "-----END PRIVATE KEY-----") + len("-----END PRIVATE KEY-----")
	for n := range len(content) - 1 {
		if err := os.WriteFile(f.Directory.Path("identity.pem"), content[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *state.Damaged
		if c, err := f.Current(); c != nil || !errors.As(err, &damaged) {
			t.Fatalf("cut off at %d: %+v, %v", n, c, err)
		}
		if n < keyEnd-1 || n%100 != 0 {
			continue
		}
		again, err := enroll.Enroll(t.Context(), l, f, claim())
		if err != nil {
			t.Fatal(err)
		}
		if !again.TLS.PrivateKey.(*ecdsa.PrivateKey).Equal(whole.TLS.PrivateKey) {
			t.Errorf("cut off at %d, behind its key: enrolled with another key", n)
		}
	}
}

// Renewed credentials that were not used yet replace damaged ones.
func TestRenewedIdentityStandsIn(t *testing.T) {
	_, l, f := newSigner(t)
	_, err := enroll.Enroll(t.Context(), l, f, claim())
	next, err2 := enroll.Renew(t.Context(), l, f)
	if err := errors.Join(err, err2, f.Directory.Write("identity.pem", nil)); err != nil {
		t.Fatal(err)
	}
	got, damaged, err := f.Usable()
	if err != nil || damaged == nil || got == nil || got.Serial() != next.Serial() {
		t.Fatalf("got %+v, %v, %v", got, damaged, err)
	}
	if kept, err := f.Current(); err != nil || kept.Serial() != next.Serial() {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if err := errors.Join(f.Directory.Write("identity.pem", nil), f.Directory.Write("identity-next.pem", []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if got, damaged, err := f.Usable(); got != nil || err != nil || damaged == nil {
		t.Errorf("both are damaged: %+v, %v, %v", got, damaged, err)
	}
}

func TestNoTokenNoRequest(t *testing.T) {
	s, l, f := newSigner(t)
	if _, err := enroll.Enroll(t.Context(), l, f, enroll.Claim{ServerID: server}); !errors.Is(err, enroll.ErrNoToken) || len(s.requests) != 0 {
		t.Errorf("got %v", err)
	}
}
