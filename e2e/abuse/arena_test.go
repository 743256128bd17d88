package abuse

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	instance = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"
	server   = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	volume   = "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b11"
	// bystander is the server of the well-behaved clients, revokedServer one that was revoked.
	bystander     = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e80"
	revokedServer = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e81"
)

// arena is a controller with one instance. The attackers have one node and two tokens,
// the well-behaved clients another node and another token. A third node and a third
// token were revoked.
type arena struct {
	*loopback.Controller
	t                *testing.T
	c                *results.Case
	address          string
	operator, viewer string
	// unauthenticated has no certificate, node has.
	unauthenticated, node *tls.Config
	bystanderNode         *tls.Config
	bystanderToken        string
	join                  string
	revokedNode           *tls.Config
	revokedToken          string
	// request is a certificate request of the node that enrolled last.
	request string
	// full says that the attack is as large as it can be.
	full bool
}

func open(t *testing.T, c *results.Case) *arena {
	t.Helper()
	address := loopback.FreeAddress(t)
	a := &arena{t: t, c: c, address: address, full: results.Full(), Controller: loopback.Open(t, loopback.Options{Address: address,
		Settings: map[string]string{"metricsListen": loopback.FreeAddress(t), "pollSeconds": "30", "convergeSeconds": "86400"}})}
	a.Put(instance, loopback.StorageTopology(server, volume, 1<<30, bystander, revokedServer))
	a.operator, a.viewer, a.bystanderToken = a.Token("abuse", api.ScopeOperator).Secret, a.Token("abuse", api.ScopeViewer).Secret, a.Token("abuse", api.ScopeViewer).Secret
	revoked := a.Token("abuse", api.ScopeOperator)
	a.revokedToken = revoked.Secret
	a.must(client.Done(a.API.RevokeToken(t.Context(), revoked.Token.ID)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.Trust().RootCertificate))
	a.unauthenticated = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
	a.join = a.JoinToken(instance)
	a.node, a.bystanderNode, a.revokedNode = a.unauthenticated.Clone(), a.unauthenticated.Clone(), a.unauthenticated.Clone()
	a.node.Certificates = []tls.Certificate{a.enroll(server)}
	a.bystanderNode.Certificates = []tls.Certificate{a.enroll(bystander)}
	a.revokedNode.Certificates = []tls.Certificate{a.enroll(revokedServer)}
	a.must(client.Done(a.API.RevokeNode(t.Context(), revokedServer)))
	return a
}

func (a *arena) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *arena) enroll(server string) tls.Certificate {
	a.t.Helper()
	m := a.Machine(server)
	a.must(m.Enroll(a.t.Context(), a.join))
	a.request = testca.Request(m.Key, nil)
	return m.Identity
}

// size is how many of a thing an attack takes.
func (a *arena) size(small, full int) int {
	if a.full {
		return full
	}
	return small
}

// dial connects from the n-th address that is not the bystanders'; nil if that
// fails, which is no fault: an attacker may be refused.
func (a *arena) dial(n int) net.Conn {
	dialer := &net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, byte(n/250), byte(1+n%250))}}
	conn, err := dialer.DialContext(a.t.Context(), "tcp", a.address)
	if err != nil {
		return nil
	}
	a.t.Cleanup(func() { conn.Close() })
	return conn
}

// secure connects and agrees on TLS.
func (a *arena) secure(n int, as *tls.Config) net.Conn {
	raw := a.dial(n)
	if raw == nil {
		return nil
	}
	conn := tls.Client(raw, as)
	ctx, cancel := context.WithTimeout(a.t.Context(), 20*time.Second)
	defer cancel()
	if conn.HandshakeContext(ctx) != nil {
		return nil
	}
	return conn
}

// send writes a request with this head and body and returns what was answered,
// status 0 if the connection was closed without an answer.
func (a *arena) send(n int, as *tls.Config, head string, body io.Reader) (status int, answer string) {
	conn := a.secure(n, as)
	if conn == nil {
		return 0, ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	go func() { // the answer may come before all is written
		_, _ = io.WriteString(conn, head)
		_, _ = io.Copy(conn, body)
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return resp.StatusCode, string(text)
}

// head is the beginning of a request; length -1 is a chunked body.
func head(method, path, bearer string, length int, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: controller\r\n", method, path)
	if bearer != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", bearer)
	}
	switch {
	case length > 0:
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", length)
	case length < 0:
		b.WriteString("Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")
	}
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return b.String() + "\r\n"
}

// together runs the attackers side by side.
func together(n int, attack func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { attack(i) })
	}
	all.Wait()
}
