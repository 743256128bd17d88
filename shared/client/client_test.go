package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// controller is a TLS server with a chain root, intermediate, leaf for names.
type controller struct {
	*httptest.Server
	root testca.Authority
}

func serve(t *testing.T, handler http.HandlerFunc, change func(*tls.Config), names ...string) controller {
	t.Helper()
	if len(names) == 0 {
		names = []string{"127.0.0.1"}
	}
	root := testca.Root(t, "root")
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{root.Intermediate(t).Server(t, time.Now().Add(time.Hour), names...)}}
	if change != nil {
		change(s.TLS)
	}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = testca.Quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	return controller{s, root}
}

func (c controller) options() client.Options {
	return client.Options{BaseURL: c.URL, RootPEM: c.root.PEM(), Pin: client.Pin(c.root.Cert)}
}

func dial(t *testing.T, o client.Options) *client.Controller {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func answerToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write([]byte(`{"token":"` + r.Proto + ` ` + r.Header.Get("Authorization") + `"}`))
}

const instance = "0b1a5c2e-0000-4000-8000-000000000001"

func TestSpeaksToTheController(t *testing.T) {
	server := serve(t, answerToken, nil)
	o := server.options()
	o.Token = "id.secret"
	got, err := client.Read[api.JoinToken](dial(t, o).GetJoinToken(t.Context(), instance))
	if err != nil {
		t.Fatal(err)
	}
	if want := "HTTP/1.1 Bearer id.secret"; got.Token != want {
		t.Errorf("got %q, want %q", got.Token, want)
	}
	got, err = client.Read[api.JoinToken](dial(t, o).GetJoinToken(t.Context(), instance, client.Bearer("other")))
	if err != nil || !strings.HasSuffix(got.Token, "other") {
		t.Errorf("got %+v, %v; want the token of the request", got, err)
	}
}

// A proxy in the environment would see the names of controllers, and break the
// chain if it intercepts.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	server := serve(t, answerToken, nil, "localhost")
	o := server.options()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	o.BaseURL = "https://localhost:" + port
	if _, err := client.Read[api.JoinToken](dial(t, o).GetJoinToken(t.Context(), instance)); err != nil {
		t.Error(err)
	}
}

func TestTrustsTheRootAlone(t *testing.T) {
	otherRoot := testca.Root(t, "root")
	tests := map[string]struct {
		server controller
		change func(*client.Options)
		want   string
	}{
		"signed by another root of the same name": {
			server: serve(t, answerToken, nil),
			change: func(o *client.Options) { o.RootPEM, o.Pin = otherRoot.PEM(), client.Pin(otherRoot.Cert) },
			want:   ": its certificate is signed by an unknown authority, not by the root certificate that is trusted here; this is not the controller whose root is pinned",
		},
		"for another name": {
			server: serve(t, answerToken, nil, "controller.example"),
			want:   ": its certificate is for controller.example, not for 127.0.0.1; use a name that the controller's certificate has",
		},
		"expired": {
			server: serve(t, answerToken, func(c *tls.Config) {
				c.Certificates[0] = otherRoot.Server(t, time.Now().Add(-time.Minute), "127.0.0.1")
			}),
			change: func(o *client.Options) { o.RootPEM, o.Pin = otherRoot.PEM(), client.Pin(otherRoot.Cert) },
			want:   ": its certificate has expired: it ended at ",
		},
		"for many hostile names": {
			server: serve(t, answerToken, nil, "a", "\x1b[2J", "c", "d", "e", "f", "g"),
			want:   `: its certificate is for a, \x1b[2J, c, d, e and 2 more, not for 127.0.0.1; use`,
		},
		"TLS 1.2": {
			server: serve(t, answerToken, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
			want:   "protocol version",
		},
		"a client certificate wanted": {
			server: serve(t, answerToken, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }),
			want:   "the controller refused the TLS handshake (certificate required)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := test.server.options()
			if test.change != nil {
				test.change(&o)
			}
			_, err := client.Read[api.JoinToken](dial(t, o).GetJoinToken(t.Context(), instance))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), o.BaseURL+": ") {
				t.Errorf("got %v, want %s and %q", err, o.BaseURL, test.want)
			}
		})
	}
}

func TestOptionsThatCannotBeRight(t *testing.T) {
	root, other := testca.Root(t, "root"), testca.Root(t, "other")
	leaf := root.Server(t, time.Now().Add(time.Hour), "a")
	good := client.Options{BaseURL: "https://controller:8443", RootPEM: root.PEM(), Pin: client.Pin(root.Cert)}
	tests := map[string]struct {
		change func(*client.Options)
		want   string
	}{
		"plain http":         {func(o *client.Options) { o.BaseURL = "http://controller:8443" }, "only https"},
		"no host":            {func(o *client.Options) { o.BaseURL = "https://:8443" }, "names no host"},
		"a path":             {func(o *client.Options) { o.BaseURL = "https://controller/x" }, "nothing else"},
		"no such port":       {func(o *client.Options) { o.BaseURL = "https://controller:84430" }, "found port 84430; expected a number up to 65535"},
		"a password":         {func(o *client.Options) { o.BaseURL = "https://u:hunter2@controller" }, "nothing else"},
		"no root":            {func(o *client.Options) { o.RootPEM = nil }, "none given"},
		"no certificate":     {func(o *client.Options) { o.RootPEM = []byte("x") }, "not a PEM certificate"},
		"half a certificate": {func(o *client.Options) { o.RootPEM = testca.Encode(root.Cert.Raw[:99]) }, "cannot be read (malformed certificate); is the file whole?"},
		"two certificates":   {func(o *client.Options) { o.RootPEM = append(root.PEM(), other.PEM()...) }, "expected the root alone"},
		"no CA":              {func(o *client.Options) { o.RootPEM = testca.Encode(leaf.Certificate[0]) }, "is no CA"},
		"a pin of another":   {func(o *client.Options) { o.Pin = client.Pin(other.Cert) }, "belongs to another controller"},
		"no pin but a guess": {func(o *client.Options) { o.Pin = "SHA256:00" }, "expected sha256:"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := good
			test.change(&o)
			_, err := client.New(o)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := client.New(good); err != nil {
		t.Error(err)
	}
}

func TestClientCertificateOfTheMoment(t *testing.T) {
	issuer := testca.Root(t, "nodes")
	var serial string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		serial = r.TLS.PeerCertificates[0].SerialNumber.String()
		w.WriteHeader(http.StatusNoContent)
	}, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	current := issuer.Server(t, time.Now().Add(time.Hour), "node")
	o := server.options()
	o.Certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &current, nil }
	c := dial(t, o)
	for range 2 {
		if err := client.Done(c.PutNodeStatus(t.Context(), api.NodeStatus{})); err != nil {
			t.Fatal(err)
		}
		leaf, _ := x509.ParseCertificate(current.Certificate[0])
		if serial != leaf.SerialNumber.String() {
			t.Errorf("got serial %s, want %s", serial, leaf.SerialNumber)
		}
		current = issuer.Server(t, time.Now().Add(time.Hour), "node")
		c.CloseIdle()
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(answerToken), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	if _, err := client.Read[api.JoinToken](dial(t, client.Options{UnixSocket: path}).GetJoinToken(t.Context(), instance)); err != nil {
		t.Error(err)
	}
	_, err = client.Read[api.JoinToken](dial(t, client.Options{UnixSocket: path + "x"}).GetJoinToken(t.Context(), instance))
	if err == nil || !strings.Contains(err.Error(), path+"x") || !strings.Contains(err.Error(), "there is no such socket; is the controller running on this machine?") {
		t.Errorf("got %v", err)
	}
}

// What happened is told in words, without the calls of Go or of the system.
func TestWhatHappened(t *testing.T) {
	root := testca.Root(t, "root")
	dialing := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	calling := func(errno syscall.Errno) error { return dialing(os.NewSyscallError("connect", errno)) }
	for want, err := range map[string]error{
		"there is no such host as c; check the controller's name and":           dialing(&net.DNSError{Err: "no such host", Name: "c", Server: "192.0.2.1:53", IsNotFound: true}),
		"the name c cannot be resolved (server misbehaving); check the":         dialing(&net.DNSError{Err: "server misbehaving", Name: "c"}),
		"connection refused; nothing listens there; is the controller running?": calling(syscall.ECONNREFUSED),
		"no route to host; check the route, the firewall and":                   calling(syscall.EHOSTUNREACH),
		"operation not permitted; check the route, the firewall and":            calling(syscall.EPERM),
		"no answer in time; check the route, the firewall and":                  calling(syscall.ETIMEDOUT),
		"the connection ended before an answer; did the controller stop, or":    dialing(syscall.ECONNRESET),
		"what answers there does not speak TLS; is it the port of the":          dialing(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}),
	} {
		o := client.Options{BaseURL: "https://c", RootPEM: root.PEM(), Dial: func(context.Context, string, string) (net.Conn, error) { return nil, err }}
		_, got := client.Read[api.JoinToken](dial(t, o).GetJoinToken(t.Context(), instance))
		if got == nil || !strings.HasPrefix(got.Error(), "https://c: "+want) || !errors.Is(got, err) {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}

// The caller's own limit is told in the caller's words.
func TestTheTimeOfTheCallerIsOver(t *testing.T) {
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("no answer within 50ms"))
	defer cancel()
	_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(ctx, instance))
	if err == nil || !strings.HasPrefix(err.Error(), server.URL+": no answer within 50ms; check the route") {
		t.Errorf("got %v", err)
	}
}

// over is a context that has ended, which net/http has not noticed.
type over struct{ context.Context }

func (over) Err() error { return context.DeadlineExceeded }

// A server may answer because it has seen that the caller's time is over; net/http then returns
// that answer now and then.
func TestAnAnswerAfterTheTimeOfTheCaller(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {}, nil)
	_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(over{t.Context()}, instance))
	if err == nil || !strings.HasPrefix(err.Error(), server.URL+": no answer in time; check the route") {
		t.Errorf("got %v", err)
	}
}

// An answer that breaks off is none: the caller may ask again.
func TestAnAnswerIsCutOff(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		answerToken(w, r)
	}, nil)
	_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(t.Context(), instance))
	var unreachable *client.Unreachable
	if !errors.As(err, &unreachable) || client.Status(err) != 0 || !strings.Contains(err.Error(), "the connection ended before the whole answer was here") {
		t.Errorf("got %v", err)
	}
}

func TestNoServerListens(t *testing.T) {
	server := serve(t, answerToken, nil)
	server.URL = "https://127.0.0.1:1"
	_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(t.Context(), instance))
	var unreachable *client.Unreachable
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "is the controller running?") || client.Status(err) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestCancelledByTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) { cancel(); <-over }, nil)
	_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(ctx, instance))
	close(over) // an answer before could come before the cancellation
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
