package daemon_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nodehitch/nodehitch/agent/connection/metadata"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	oldNonce = "00112233445566778899aabbccddeeff"
	newNonce = "ffeeddccbbaa99887766554433221100"
)

// shown is a metadata service of the machine; set changes what it shows.
type shown struct {
	mu     sync.Mutex
	server string
	nonce  string
	asked  int
}

func (n *node) hasMetadata() *shown {
	s := &shown{server: server}
	listener := httptest.NewServer(http.HandlerFunc(s.serve))
	n.t.Cleanup(listener.Close)
	n.metadata = metadata.At(listener.URL)
	return s
}

func (s *shown) serve(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	meta := ""
	if s.nonce != "" {
		meta = `, "meta": {"nodehitch_nonce": "` + s.nonce + `"}`
	}
	fmt.Fprintf(w, `{"uuid": %q%s}`, s.server, meta)
}

func (s *shown) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// claimed are the public keys and the nonces that the enrollments brought.
func (c *controller) claimed(t *testing.T) (keys map[string]bool, nonces []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	keys = map[string]bool{}
	for _, claim := range c.claims {
		block, _ := pem.Decode([]byte(claim.CertificateRequest))
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		keys[string(csr.RawSubjectPublicKeyInfo)] = true
		nonces = append(nonces, claim.Nonce)
	}
	return keys, nonces
}

func TestTheNonceIsReadOnRequest(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.nonce = newNonce
	n := newNode(t, c)
	service := n.hasMetadata()
	n.start()
	until(t, "the status says what it waits for", func() bool {
		return strings.Contains(n.status().Summary(), "the controller wants proof that this machine is the server "+server) &&
			strings.Contains(n.status().Summary(), "does not show meta.nodehitch_nonce yet")
	})
	service.set(func() { service.nonce = oldNonce }) // of a life of the controller before
	until(t, "the old nonce is refused", func() bool { _, nonces := c.claimed(t); return len(nonces) == 2 })
	until(t, "the status says that it is old", func() bool { return strings.Contains(n.status().Controller.Waiting, "still shows the previous nonce") })
	service.set(func() { service.nonce = newNonce })
	until(t, "Ready", n.ready(c, 1))
	keys, nonces := c.claimed(t)
	if len(keys) != 1 || strings.Join(nonces, " ") != " "+oldNonce+" "+newNonce {
		t.Errorf("%d keys, nonces %q", len(keys), nonces)
	}
	if w := n.status().Controller.Waiting; w != "" {
		t.Errorf("it waits still: %s", w)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if text := n.logs.String(); strings.Contains(text, oldNonce) || strings.Contains(text, newNonce) {
		t.Error("a nonce is in the log")
	}
}

func TestWithoutARequestTheMetadataServiceIsNotRead(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	service := n.hasMetadata()
	service.nonce = oldNonce
	n.start()
	until(t, "Ready", n.ready(c, 1))
	if _, nonces := c.claimed(t); service.asked != 0 || nonces[0] != "" {
		t.Errorf("asked %d times, sent %q", service.asked, nonces)
	}
}

// The agent keeps trying, and its status says what it waits for.
func TestAMachineThatIsAnotherServerThanItSays(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.nonce = newNonce
	n := newNode(t, c)
	service := n.hasMetadata()
	service.server, service.nonce = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70", newNonce
	n.start()
	until(t, "the status says which it is", func() bool {
		return strings.Contains(n.status().Summary(), "not enrolled: the metadata service says that this machine is the server 6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70")
	})
	if _, nonces := c.claimed(t); strings.Join(nonces, "") != "" {
		t.Error("it sent another server's nonce")
	}
	service.set(func() { service.server = server })
	until(t, "Ready", n.ready(c, 1))
}

func TestARefusedNonceIsRetriedSoon(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	asked := 0
	c.enroll = func() *api.Problem {
		if asked++; asked == 1 {
			return api.NewProblem(api.ProblemNotAttested, "the server is SHUTOFF")
		}
		return nil
	}
	n := newNode(t, c)
	n.start()
	until(t, "the status says why", func() bool { return strings.Contains(n.status().Summary(), "the server is SHUTOFF") })
	until(t, "Ready", n.ready(c, 1))
}
