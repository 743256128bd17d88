package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// controller is enough of a controller to break its connections, answers and
// certificates. How the real one behaves is tested in e2e.
type controller struct {
	t      *testing.T
	server *httptest.Server
	root   testca.Authority
	key    *ecdsa.PrivateKey // signs nodes

	mu sync.Mutex
	// doc is the configuration as it goes over the wire, with its ETag.
	doc     []byte
	etag    string
	changed chan struct{}
	hold    time.Duration
	// enroll and answer refuse, if they are not nil.
	enroll func() *api.Problem
	// nonce is the nonce that an enrollment must have, if it is not empty.
	nonce string
	// claims are the enrollments that were requested.
	claims []api.EnrollRequest
	refuse func(r *http.Request, serial string) *api.Problem
	// retryAfter is the header of what is refused, if it is not empty.
	retryAfter string
	// cut closes the connection without an answer.
	cut bool
	// tells are headers of each answer of a poll.
	tells map[string]string
	// life of the next certificate.
	notBefore, notAfter time.Time
	serial              int64
	reports             []api.NodeStatus
	formats             []api.FormatReport
	seen                []string // method, path and serial of every request
}

func newController(t *testing.T) *controller {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{
		t: t, root: testca.Root(t, "root"), key: key, changed: make(chan struct{}), hold: time.Minute,
		notBefore: time.Now().Add(-time.Hour), notAfter: time.Now().Add(24 * time.Hour),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/enroll", c.postEnroll)
	mux.HandleFunc("POST /v1/node/certificate", c.postCertificate)
	mux.HandleFunc("GET /v1/node/config", c.getConfig)
	mux.HandleFunc("PUT /v1/node/status", c.putStatus)
	mux.HandleFunc("POST /v1/node/volumes/{id}/format", c.postFormat)
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(mux, w, r) }))
	c.server.TLS = &tls.Config{
		ClientAuth:   tls.RequestClientCert,
		Certificates: []tls.Certificate{c.root.Intermediate(t).Server(t, time.Now().Add(time.Hour), "127.0.0.1")},
	}
	c.server.Config.ErrorLog = testca.Quiet
	c.server.StartTLS()
	t.Cleanup(c.server.Close)
	return c
}

func (c *controller) pin() string { return client.Pin(c.root.Cert) }

func (c *controller) serve(mux http.Handler, w http.ResponseWriter, r *http.Request) {
	serial := ""
	if len(r.TLS.PeerCertificates) > 0 {
		serial = r.TLS.PeerCertificates[0].SerialNumber.String()
	}
	c.mu.Lock()
	c.seen = append(c.seen, r.Method+" "+r.URL.Path+" "+serial)
	cut, refuse, retryAfter := c.cut, c.refuse, c.retryAfter
	c.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Path != "/v1/enroll" && serial == "" {
		problem(w, api.NewProblem(api.ProblemUnauthorized, "no certificate"))
		return
	}
	if refuse != nil && r.URL.Path != "/v1/enroll" {
		if p := refuse(r, serial); p != nil {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			problem(w, p)
			return
		}
	}
	mux.ServeHTTP(w, r)
}

func (c *controller) postEnroll(w http.ResponseWriter, r *http.Request) {
	var req api.EnrollRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		problem(w, api.NewProblem(api.ProblemUnauthorized, ""))
		return
	}
	c.claims = append(c.claims, req)
	if c.nonce != "" && req.Nonce != c.nonce {
		problem(w, api.NewProblem(api.ProblemNonceRequired, "prove it"))
		return
	}
	if c.enroll != nil {
		if p := c.enroll(); p != nil {
			problem(w, p)
			return
		}
	}
	c.issue(w, req.CertificateRequest, req.ServerID)
}

func (c *controller) postCertificate(w http.ResponseWriter, r *http.Request) {
	var req api.CertificateRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issue(w, req.CertificateRequest, server)
}

func (c *controller) issue(w http.ResponseWriter, csrPEM, nodeID string) {
	block, _ := pem.Decode([]byte(csrPEM))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		c.t.Error(err)
	}
	c.serial++
	template := &x509.Certificate{SerialNumber: big.NewInt(c.serial), NotBefore: c.notBefore, NotAfter: c.notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: "urn", Opaque: "nodehitch:node:" + nodeID}}}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: "nodes"}} // the agent has no reason to ask whose it is
	der, err := x509.CreateCertificate(rand.Reader, template, parent, csr.PublicKey, c.key)
	if err != nil {
		c.t.Error(err)
	}
	write(w, http.StatusCreated, api.IssuedCertificate{Certificate: string(testca.Encode(der)), NodeID: nodeID})
}

func (c *controller) getConfig(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	doc, etag, changed, hold := c.doc, c.etag, c.changed, c.hold
	c.mu.Unlock()
	if r.Header.Get("If-None-Match") == etag {
		select {
		case <-changed:
			c.mu.Lock()
			doc, etag = c.doc, c.etag
			c.mu.Unlock()
		case <-time.After(hold):
		case <-r.Context().Done():
			return
		}
	}
	c.mu.Lock()
	cut, refuse := c.cut, c.refuse
	c.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
	if refuse != nil {
		if p := refuse(r, r.TLS.PeerCertificates[0].SerialNumber.String()); p != nil {
			problem(w, p)
			return
		}
	}
	w.Header().Set("ETag", etag)
	w.Header().Set("Nodehitch-Poll-Seconds", "60")
	w.Header().Set("Nodehitch-Converge-Seconds", "1")
	c.mu.Lock()
	for name, value := range c.tells {
		w.Header().Set(name, value)
	}
	c.mu.Unlock()
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc)
}

func (c *controller) putStatus(w http.ResponseWriter, r *http.Request) {
	var s api.NodeStatus
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	c.reports = append(c.reports, s)
	c.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (c *controller) postFormat(w http.ResponseWriter, r *http.Request) {
	var f api.FormatReport
	_ = json.NewDecoder(r.Body).Decode(&f)
	c.mu.Lock()
	c.formats = append(c.formats, f)
	c.mu.Unlock()
	write(w, http.StatusOK, api.FormatPermit{Permit: "p", Phase: f.Phase})
}

// give changes the configuration and wakes parked polls; extra is JSON that is
// put at its front, for what no NodeConfig has.
func (c *controller) give(generation, epoch int64, extra string) {
	doc := api.NodeConfig{APIVersion: api.NodeConfigV1, Role: api.RoleStorage, Generation: generation, Epoch: epoch}
	text, _ := json.Marshal(doc)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doc = append([]byte("{"+extra), text[1:]...)
	c.etag = strconv.Quote("digest-" + strconv.FormatInt(generation, 10))
	c.wake()
}

// wake ends parked polls; the caller has locked c.mu.
func (c *controller) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// set changes how the controller behaves, and ends parked polls.
func (c *controller) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.wake()
}

// last is the last reported status; the zero value before there is one.
func (c *controller) last() api.NodeStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reports) == 0 {
		return api.NodeStatus{}
	}
	return c.reports[len(c.reports)-1]
}

// count is how many requests there were of this form.
func (c *controller) count(request string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.seen {
		if len(s) >= len(request) && s[:len(request)] == request {
			n++
		}
	}
	return n
}

func problem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
