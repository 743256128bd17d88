package trust

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

func TestImpostors(t *testing.T) {
	loopback.RequireRoot(t)
	w := newTarget(t, loopback.Options{})
	for _, d := range deceptions {
		for _, v := range victims {
			name := "impostor: " + d.name + " (" + v.name + ")"
			t.Run(name, func(t *testing.T) {
				d.try(begin(t, w, name, d.shows+"; nothing is sent, in particular no join token"), v)
			})
		}
	}
}

func (d deception) try(a *attempt, v victim) {
	c := a.w.AgentConfig(a.w.ours.instance)
	i := d.stage(a, &c)
	said, ok := v.run(a, c, a.w.ours.storage, func() bool { return !d.called || i.calls() > 0 }, i.trustedBySystem(a), nil)
	connections, wire, heard := i.got()
	if ok {
		a.c.Unauthorised(1)
		a.Error("it accepted the impostor")
	}
	if i.secured && heard != "" || !i.secured && heard != "" && !strings.HasPrefix(heard, "\x16\x03") {
		a.c.Unauthorised(1)
		a.Errorf("the impostor heard %.300q", heard)
	}
	id, secret, _ := strings.Cut(c.JoinToken, ".")
	a.mustNotHold("what came over the wire", wire, map[string]string{"the join token's secret": secret, "its id": id, "the server's id": a.w.ours.storage})
	a.mustNotHold("what it said of it", said, map[string]string{"the join token": secret})
	if d.called != (connections > 0) {
		a.Errorf("%d connections; it should connect: %v", connections, d.called)
	}
	want := map[string]string{"agent": d.agent, "bootstrap": d.bootstrap}[v.name]
	if !containsAny(strings.ToLower(said), want) {
		a.Errorf("want %q in what it said:\n%s", want, said)
	}
	a.c.Figure("connections", "%d", connections)
	a.c.Figure("heard", "%d bytes", len(heard))
}

// trustedBySystem is the environment in which the impostor's root is the system's.
func (i *impostor) trustedBySystem(a *attempt) []string {
	if i.root == nil {
		return nil
	}
	path := filepath.Join(a.TempDir(), "system.pem")
	if err := os.WriteFile(path, i.root, 0o600); err != nil {
		a.Fatal(err)
	}
	return []string{"SSL_CERT_FILE=" + path, "SSL_CERT_DIR=" + filepath.Dir(path)}
}

// containsAny searches for one of several texts between bars.
func containsAny(text, wants string) bool {
	for want := range strings.SplitSeq(wants, "|") {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// With the controller's own key the impostor gets the token, so the cases above would see
// it.
func TestTheImpostorHearsTheToken(t *testing.T) {
	loopback.RequireRoot(t)
	w := newTarget(t, loopback.Options{})
	a := &attempt{T: t, w: w, c: new(results.Case)}
	c := w.AgentConfig(w.ours.instance)
	i := served(func(*x509.Certificate) {}, nil)(a, &c)
	runAgent(a, c, w.ours.storage, func() bool { return i.calls() > 0 }, nil, nil)
	if _, wire, heard := i.got(); !strings.Contains(heard, c.JoinToken) || strings.Contains(wire, c.JoinToken) {
		t.Errorf("heard %q", heard)
	}
}

// The first URL is the impostor's, the second the controller's.
func TestTheNextControllerIsTried(t *testing.T) {
	loopback.RequireRoot(t)
	w := newTarget(t, loopback.Options{Settings: map[string]string{"agentDirectory": anyProgram(t)}})
	for _, v := range victims {
		name := "impostor: first of two URLs (" + v.name + ")"
		t.Run(name, func(t *testing.T) {
			a := begin(t, w, name, "the impostor at the first URL gets nothing, the controller at the second is used")
			c := w.AgentConfig(w.ours.instance)
			i := foreignChain(a, &c)
			c.ControllerURLs = append(c.ControllerURLs, w.URL)
			said, ok := v.run(a, c, w.spare(), func() bool { return false }, i.trustedBySystem(a), nil)
			connections, wire, heard := i.got()
			if !ok || connections == 0 {
				t.Errorf("the controller was found: %v, the impostor was called %d times:\n%s", ok, connections, said)
			}
			a.mustNotHold("what the impostor got", wire+heard, map[string]string{"the join token": w.ours.token})
			if heard != "" {
				a.c.Unauthorised(1)
				t.Errorf("the impostor heard %.300q", heard)
			}
		})
	}
}

// anyProgram is an agentDirectory whose agent does nothing: the downloader runs it
// as `nodehitch-agent install`, on this machine.
func anyProgram(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	program, err := os.ReadFile("/bin/true")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "nodehitch-agent-amd64"), program, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// The controller is at an address of a network of its own here: Go's own proxy
// settings never apply to the loopback.
func TestProxyVariablesAreIgnored(t *testing.T) {
	l := labtest.Open(t)
	inside := l.Command(t.Context(), "x").Args
	inside = inside[:len(inside)-1]
	w := newTarget(t, loopback.Options{Address: "10.10.0.1:8443", Wrap: inside, Settings: map[string]string{"agentDirectory": anyProgram(t)}})
	for _, v := range victims {
		name := "proxy of the environment (" + v.name + ")"
		t.Run(name, func(t *testing.T) {
			a := begin(t, w, name, "https_proxy and similar variables are ignored: the controller is reached directly and the proxy is not called")
			listener, err := l.Listen(t.Context(), "tcp", "10.10.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			i := serve(t, listener, nil, nil)
			proxy := "http://user:password@" + listener.Addr().String()
			var env []string
			for _, name := range []string{"http_proxy", "https_proxy", "all_proxy"} {
				env = append(env, name+"="+proxy, strings.ToUpper(name)+"="+proxy)
			}
			said, ok := v.run(a, w.AgentConfig(w.ours.instance), w.ours.worker, func() bool { return true }, append(env, "no_proxy=", "NO_PROXY="), inside)
			connections, wire, _ := i.got()
			if !ok {
				t.Errorf("the controller was not reached:\n%s", said)
			}
			a.mustNotHold("what the proxy got", wire, map[string]string{"the join token": w.ours.token})
			if connections > 0 {
				a.c.Unauthorised(1)
				t.Errorf("the proxy was called %d times: %.200q", connections, wire)
			}
		})
	}
}
