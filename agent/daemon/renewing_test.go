package daemon_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// enrolled is a node whose certificate has this much life behind and before it, and which
// runs.
func enrolled(t *testing.T, behind, before time.Duration) (*controller, *node, func() error) {
	t.Helper()
	c, n := due(t, behind, before)
	return c, n, n.start()
}

// due is such a node that does not run.
func due(t *testing.T, behind, before time.Duration) (*controller, *node) {
	t.Helper()
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_ = n.state().Remove("identity.pem")
	c.set(func() { c.notBefore, c.notAfter = time.Now().Add(-behind), time.Now().Add(before) })
	// Enroll once more, for a certificate of that life; what comes next is longer.
	c.set(func() {
		c.refuse = func(*http.Request, string) *api.Problem { return api.NewProblem(api.ProblemUnavailable, "busy") }
	})
	stop = n.start()
	until(t, "enrolled", func() bool { _, err := n.state().Read("identity.pem"); return err == nil })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.set(func() {
		c.refuse = nil
		c.notBefore, c.notAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	})
	return c, n
}

// renewed waits until another certificate than that of the enrollment (the second)
// is in use. Which it is depends on what the agent asked for as it was stopped.
func renewed(t *testing.T, n *node) (serial string) {
	t.Helper()
	until(t, "the new certificate is in use", func() bool {
		serial = n.status().Controller.CertificateSerial
		return serial != "" && serial != "2"
	})
	return serial
}

func TestRenewalAtTwoThirdsOfTheLife(t *testing.T) {
	c, n, _ := enrolled(t, 2*time.Hour, 59*time.Minute)
	serial := renewed(t, n)
	c.give(2, 1, "")
	until(t, "Ready over it", n.ready(c, 2))
	if got := c.count("GET /v1/node/config " + serial); got == 0 {
		t.Error("no poll with the new certificate")
	}
	if _, err := n.state().Read("identity-next.pem"); err == nil {
		t.Error("the new identity is not adopted")
	}
}

func TestNoRenewalBefore(t *testing.T) {
	c, n, _ := enrolled(t, time.Hour, 59*time.Minute)
	c.give(2, 1, "")
	until(t, "Ready", n.ready(c, 2))
	if c.count("POST /v1/node/certificate") != 0 {
		t.Error("renewed before two thirds of its life")
	}
}

func TestExpiredCertificateRenewsByItsKey(t *testing.T) {
	c, n, _ := enrolled(t, 48*time.Hour, -24*time.Hour)
	renewed(t, n)
	if c.count("POST /v1/node/certificate 2") == 0 {
		t.Error("the renewal was not asked for with the old certificate")
	}
	if c.count("POST /v1/enroll") != 2 {
		t.Error("enrolled instead of renewing")
	}
}

func TestNewCertificateThatDoesNotWorkIsDropped(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.notBefore, c.notAfter = time.Now().Add(-2*time.Hour), time.Now().Add(59*time.Minute)
	c.refuse = func(_ *http.Request, serial string) *api.Problem {
		if serial != "1" {
			return api.NewProblem(api.ProblemUnauthorized, "")
		}
		return nil
	}
	n := newNode(t, c)
	n.start()
	until(t, "Ready with the old one", n.ready(c, 1))
	until(t, "the new one was tried", func() bool { return c.count("GET /v1/node/config 2") > 0 })
	until(t, "it is dropped", func() bool { _, err := n.state().Read("identity-next.pem"); return err != nil })
	if got := n.status().Controller.CertificateSerial; got != "1" {
		t.Errorf("in use is %s", got)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !strings.Contains(n.logs.String(), "the certificate could not be renewed") {
		t.Error("nothing was logged")
	}
}

// The answer that carried the renewed certificate came, and the agent was killed
// before it had used it.
func TestRenewalGoesOnAfterARestart(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.notBefore, c.notAfter = time.Now().Add(-2*time.Hour), time.Now().Add(59*time.Minute)
	c.refuse = func(_ *http.Request, serial string) *api.Problem {
		if serial == "2" {
			return api.NewProblem(api.ProblemUnavailable, "not now")
		}
		return nil
	}
	n := newNode(t, c)
	stop := n.start()
	until(t, "the new one is kept", func() bool { _, err := n.state().Read("identity-next.pem"); return err == nil })
	until(t, "it was tried", func() bool { return c.count("GET /v1/node/config 2") > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.set(func() { c.refuse, c.notAfter = nil, time.Now().Add(24*time.Hour) })
	n.start()
	until(t, "the new one is in use", func() bool { return n.status().Controller.CertificateSerial == "2" })
	if c.count("POST /v1/node/certificate") != 1 {
		t.Error("another one was asked for")
	}
}

// The renewed certificate on disk is damaged, or is another node's: the agent requests
// another one, and uses the present one until then.
func TestRenewedCertificateThatCannotBeUsedIsRenewedAgain(t *testing.T) {
	for name, content := range map[string]func(n *node) []byte{
		"empty":       func(*node) []byte { return []byte{} },
		"garbage":     func(*node) []byte { return []byte("x") },
		"another's":   func(*node) []byte { return identityOf(t, otherServer) },
		"cut off":     func(n *node) []byte { return n.read("identity-next.pem")[:400] },
		"of the root": func(*node) []byte { return testca.Root(t, "x").PEM() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(t)
			c.give(1, 1, "")
			c.notBefore, c.notAfter = time.Now().Add(-2*time.Hour), time.Now().Add(59*time.Minute)
			c.refuse = func(_ *http.Request, serial string) *api.Problem {
				if serial == "2" {
					return api.NewProblem(api.ProblemUnavailable, "not now")
				}
				return nil
			}
			n := newNode(t, c)
			stop := n.start()
			until(t, "the new one was tried", func() bool { return c.count("GET /v1/node/config 2") > 0 })
			until(t, "the status says that it is not in use", func() bool { return n.status().Controller.RenewalError != "" })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			n.write("identity-next.pem", content(n))
			c.set(func() { c.notAfter = time.Now().Add(24 * time.Hour) })
			n.start()
			until(t, "a third one is in use", func() bool { s := n.status().Controller; return s.CertificateSerial == "3" && s.RenewalError == "" })
		})
	}
}

// identityOf is the identity of another node, taken from a disk of its own.
func identityOf(t *testing.T, id string) []byte {
	t.Helper()
	c := newController(t)
	n := newNode(t, c)
	n.is(id)
	n.start()
	until(t, "enrolled", func() bool { _, err := n.state().Read("identity.pem"); return err == nil })
	return n.read("identity.pem")
}

// A kill at any point of a renewal leaves a state on disk that the steps before it made. No
// restart enrolls again, and each ends with one identity and only its files.
func TestRenewalKilledAnywhere(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.notBefore, c.notAfter = time.Now().Add(-2*time.Hour), time.Now().Add(59*time.Minute) // to be renewed at once
	c.refuse = func(r *http.Request, serial string) *api.Problem {
		if serial != "1" {
			return api.NewProblem(api.ProblemUnavailable, "not now")
		}
		return nil
	}
	n := newNode(t, c)
	stop := n.start()
	until(t, "the new one was tried", func() bool { return c.count("GET /v1/node/config 2") > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	old, next := n.read("identity.pem"), n.read("identity-next.pem")
	key := next[:bytes.Index(next, []byte("-----BEGIN CERTIFICATE"))]
	c.set(func() { c.refuse, c.notAfter = nil, time.Now().Add(24*time.Hour) })
	for _, state := range []struct {
		name  string
		files map[string][]byte
	}{
		{"before anything", map[string][]byte{"identity.pem": old}},
		{"writing the key", map[string][]byte{"identity.pem": old, ".key-next.pem.17.new": key[:50]}},
		{"the key is there, and perhaps its certificate was issued", map[string][]byte{"identity.pem": old, "key-next.pem": key}},
		{"writing the certificate", map[string][]byte{"identity.pem": old, "key-next.pem": key, ".identity-next.pem.17.new": next[:300]}},
		{"both are there", map[string][]byte{"identity.pem": old, "key-next.pem": key, "identity-next.pem": next}},
		{"the key is forgotten", map[string][]byte{"identity.pem": old, "identity-next.pem": next}},
		{"adopted, with the key", map[string][]byte{"identity.pem": next, "key-next.pem": key}},
		{"adopted", map[string][]byte{"identity.pem": next}},
	} {
		t.Run(state.name, func(t *testing.T) {
			for _, name := range []string{"identity.pem", "identity-next.pem", "key-next.pem", ".key-next.pem.17.new", ".identity-next.pem.17.new"} {
				n.write(name, state.files[name])
			}
			enrolled := c.count("POST /v1/enroll")
			stop := n.start()
			until(t, "a renewed one is in use, and alone", func() bool {
				s := n.status().Controller
				left, _ := filepath.Glob(n.state().Path("*.pem"))
				return s.Connected && s.CertificateSerial != "" && s.CertificateSerial != "1" && len(left) == 1
			})
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if c.count("POST /v1/enroll") != enrolled {
				t.Error("it enrolled anew")
			}
		})
	}
}
