package trust

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

const connectedAgents = 50

// The controller replaces an intermediate after half of its two years and checks once an
// hour. Here it has lost the key of the present one and the serving certificate, so the
// next start replaces both.
func TestRotation(t *testing.T) {
	loopback.RequireRoot(t)
	metrics := loopback.FreeAddress(t)
	w := newTarget(t, loopback.Options{Settings: map[string]string{"metricsListen": metrics}})
	a := begin(t, w, "rotation: intermediate and server certificate, 50 agents",
		"a restart replaces all certificates but the root: every agent connects with its first attempt after it, with its old identity, and none is refused")
	s := w.newStack(connectedAgents)
	agents := make([]*loopback.Agent, len(s.spares))
	for i, id := range s.spares {
		agents[i] = loopback.StartAgent(t, loopback.AgentOptions{ServerID: id, Config: w.AgentConfig(s.instance)})
	}
	before := make([]string, len(agents))
	for i, agent := range agents {
		loopback.Until(t, "the agent is connected", func() bool { return agent.Status().Controller.Connected })
		before[i] = agent.Status().Controller.CertificateSerial
	}
	machine := w.enrolled(w.ours, w.spare())
	oldPin, oldServed := w.Trust().Pin, a.presented()

	stopped := time.Now()
	w.End(syscall.SIGTERM)
	w.loseIntermediate()
	w.Start()
	a.areBack(agents, stopped)

	if pin := w.Trust().Pin; pin != oldPin {
		t.Errorf("the pin was %s and is %s", oldPin, pin)
	}
	for i, certificate := range a.presented() {
		if bytes.Equal(certificate, oldServed[i]) {
			t.Errorf("certificate %d of the served chain is the one from before", i)
		}
	}
	a.wereNotRefused(agents, before, metrics)
	a.allowed("a certificate from before renews", machine.renew(), http.StatusCreated)
	a.allowed("under the new intermediate", machine.config(), http.StatusOK)
	if issuer := machine.certificate.Certificate[1]; !bytes.Equal(issuer, a.presented()[1]) {
		t.Error("the renewed certificate is not the new intermediate's")
	}
	a.refused("and no longer the one from before", w.boot(machine.id).enroll(w.ours.token, nil), http.StatusConflict)
}

// wereNotRefused checks the agents' identities and the controller's metrics since. An agent
// whose identity is refused asks to enroll again.
func (a *attempt) wereNotRefused(agents []*loopback.Agent, serials []string, metrics string) {
	a.Helper()
	for i, agent := range agents {
		if serial := agent.Status().Controller.CertificateSerial; serial != serials[i] {
			a.Errorf("an agent has the identity %s, had %s", serial, serials[i])
		}
	}
	polls := 0.0
	for name, n := range scrape(a, metrics) {
		if !strings.HasPrefix(name, "nodehitch_http_requests_total") {
			continue
		}
		if containsAny(name, `code="401"|code="403"|operation="enroll"`) && n > 0 {
			a.Errorf("%s is %v", name, n)
		}
		if strings.Contains(name, `operation="getNodeConfig"`) {
			polls += n
		}
	}
	if int(polls) < len(agents) {
		a.Errorf("the metrics have %v polls of %d agents: refusals cannot be counted there", polls, len(agents))
	}
}

// presented is the chain that the controller shows to clients, DER.
func (a *attempt) presented() [][]byte {
	a.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: a.w.roots}}
	conn, err := dialer.DialContext(a.Context(), "tcp", strings.TrimPrefix(a.w.URL, "https://"))
	if err != nil {
		a.Fatal(err)
	}
	defer conn.Close()
	var chain [][]byte
	for _, cert := range conn.(*tls.Conn).ConnectionState().PeerCertificates {
		chain = append(chain, cert.Raw)
	}
	return chain
}

// loseIntermediate takes the key of the intermediate and the serving certificate away.
func (w *target) loseIntermediate() {
	w.t.Helper()
	cert, _, _ := w.pki("intermediate-*.pem")
	paths, _ := filepath.Glob(filepath.Join(w.Data(), "pki", "intermediate-*.pem"))
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	if err := os.WriteFile(paths[0], text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.Data(), "pki", "server.pem")); err != nil {
		w.t.Fatal(err)
	}
}

// areBack waits for every agent. One that is not connected when the controller is ready
// waits for the end of its back-off; its next attempt has to succeed.
func (a *attempt) areBack(agents []*loopback.Agent, stopped time.Time) {
	a.Helper()
	ready := time.Now()
	failures := make([]map[time.Time]bool, len(agents))
	var longestAway, longestWait time.Duration
	for i := range agents {
		failures[i] = map[time.Time]bool{}
	}
	loopback.Until(a, "all agents are back", func() bool {
		back := 0
		for i, agent := range agents {
			s := agent.Status().Controller
			switch {
			case s.Connected && s.LastContact != nil && s.LastContact.After(ready):
				back++
				longestAway = max(longestAway, s.LastContact.Sub(stopped))
			case s.NextAttempt != nil:
				failures[i][*s.NextAttempt] = true
				longestWait = max(longestWait, s.NextAttempt.Sub(ready))
			}
		}
		return back == len(agents)
	})
	for i, agent := range agents {
		// The attempt whose end we see, and one that had begun before.
		if len(failures[i]) > 2 {
			a.Errorf("%s failed %d times after the controller was back", agent.Dir, len(failures[i]))
		}
	}
	a.c.Figure("agents", "%d", len(agents))
	a.c.Figure("longest back-off left when the controller was ready", "%d ms", longestWait.Milliseconds())
	a.c.Figure("longest time to the first answer, with the restart and the held poll", "%d ms", longestAway.Milliseconds())
}
