package trust

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// Two virtual machines, each with a kernel and so a clock of its own: the controller on one
// and the agent on the other, both the real binaries. The test sets the machines'
// CLOCK_REALTIME, as an administrator would with date(1).
func TestClocks(t *testing.T) {
	t.Parallel()
	w := newClocks(t)
	// In this order: each begins with the state that the last one left.
	for _, c := range []struct {
		name, shows string
		try         func(*clocks, *attempt)
	}{
		{"clock: agent an hour behind", "the agent enrolls, polls and renews, although the controller's certificates are new", (*clocks).behind},
		{"clock: agent an hour ahead", "the agent enrolls, polls and renews", (*clocks).ahead},
		{"clock: three days without a controller", "the certificate has expired: the agent renews it with its key, and does not enroll again", (*clocks).threeDays},
		{"clock: 31 days after the certificate's end", "renewal and all other requests are refused, the node keeps its state; after reenroll it enrolls again", (*clocks).tooLate},
		{"clock: a year later", "every certificate of the controller but the root has changed: a new machine enrolls with the year-old user_data, which is unchanged", (*clocks).aYearLater},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			c.try(w, begin(t, nil, c.name, c.shows+" (two VMs whose clocks are set)"))
		}) {
			return
		}
	}
}

func (w *clocks) behind(a *attempt) {
	w.startAgent()
	w.until(a, "it has enrolled", enrolledAndReady) // Ready is what it reports after its first poll
	w.renews(a)
}

func (w *clocks) ahead(a *attempt) {
	w.exec(w.node, "systemctl", "stop", "nodehitch-agent")
	w.exec(w.node, "rm", "-r", "/var/lib/nodehitch/agent")
	if _, err := client.Read[api.Node](w.api.API.ReenrollNode(a.Context(), w.node.ServerID())); err != nil {
		a.Fatal(err)
	}
	w.set(w.there, w.there+time.Hour)
	w.exec(w.node, "systemctl", "start", "nodehitch-agent")
	w.until(a, "it has enrolled", enrolledAndReady) // Ready is what it reports after its first poll
	w.renews(a)
}

// outage stops the controller until a moment of its clock.
func (w *clocks) outage(until time.Time) {
	w.t.Helper()
	w.exec(w.controller, "systemctl", "kill", "-s", "KILL", "nodehitch-controller")
	there := time.Until(until)
	w.set(there, there)
	w.exec(w.controller, "systemctl", "reset-failed", "nodehitch-controller")
	w.exec(w.controller, "systemctl", "start", "nodehitch-controller")
}

func (w *clocks) threeDays(a *attempt) {
	before := w.now()
	back := time.Now().Add(w.there + 3*day)
	if before.CertificateNotAfter.After(back) {
		a.Fatalf("the certificate lasts until %v", before.CertificateNotAfter)
	}
	w.outage(back)
	w.renewed(a, before)
	a.c.Figure("certificate expired for", "%.1f h", back.Sub(*before.CertificateNotAfter).Hours())
}

func (w *clocks) tooLate(a *attempt) {
	before := w.now()
	back := before.CertificateNotAfter.Add(31 * day)
	w.outage(back)
	var given, refused []string
	w.until(a, "renewal and poll are refused", func(api.Node) bool {
		given, refused = w.answers(back.Add(-time.Hour))
		all := strings.Join(refused, "")
		return len(given) > 0 || strings.Contains(all, "operation=renewCertificate ") && strings.Contains(all, "operation=getNodeConfig ")
	})
	a.c.Unauthorised(int64(len(given)))
	a.asked += len(given) + len(refused)
	if len(given) > 0 {
		a.Fatalf("after the certificate's end the node was given\n%s", strings.Join(given, ""))
	}
	if said := w.exec(w.node, "/usr/local/bin/nodehitch-agent", "status"); !strings.Contains(said, "has expired") {
		a.Errorf("the agent's status does not say why:\n%s", said)
	}
	if after := w.now(); after.CertificateSerial != before.CertificateSerial || after.LastSeenAt != nil && after.LastSeenAt.After(*before.CertificateNotAfter) {
		a.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := client.Read[api.Node](w.api.API.ReenrollNode(a.Context(), w.node.ServerID())); err != nil {
		a.Fatal(err)
	}
	w.until(a, "it has enrolled anew", func(n api.Node) bool { return enrolledAndReady(n) && n.CertificateSerial != before.CertificateSerial })
}

// nodesRequest is the controller's line of an answer to a node, with its status.
var nodesRequest = regexp.MustCompile(`operation=(?:renewCertificate|getNodeConfig|putNodeStatus|postFormat|getNodeFile) status=(\d+)`)

// answers are what the controller has logged of its answers to nodes since a moment of
// its clock.
func (w *clocks) answers(since time.Time) (given, refused []string) {
	w.t.Helper()
	log := w.exec(w.controller, "journalctl", "--no-pager", "-o", "cat", "-u", "nodehitch-controller", "--since", fmt.Sprintf("@%d", since.Unix()))
	for line := range strings.Lines(log) {
		switch match := nodesRequest.FindStringSubmatch(line); {
		case match == nil:
		case match[1] < "400":
			given = append(given, line)
		case match[1] == "401":
			refused = append(refused, line)
		}
	}
	return given, refused
}

// aYearLater is a server of a scale-out: only its user_data is old, which all members of a
// group share.
func (w *clocks) aYearLater(a *attempt) {
	before, userData, server, all := w.now(), w.userData(), w.sum("server.pem"), w.pki()
	w.exec(w.node, "systemctl", "stop", "nodehitch-agent")
	w.exec(w.node, "rm", "-r", "/var/lib/nodehitch/agent")
	w.outage(time.Now().Add(w.there + 366*day))
	if w.sum("server.pem") == server || w.pki() == all {
		a.Errorf("a year later the certificates are the same: %s", w.pki())
	}
	if _, err := client.Read[api.Node](w.api.API.ReenrollNode(a.Context(), w.node.ServerID())); err != nil {
		a.Fatal(err)
	}
	w.exec(w.node, "systemctl", "start", "nodehitch-agent")
	after := w.until(a, "it has enrolled anew", func(n api.Node) bool { return enrolledAndReady(n) && n.CertificateSerial != before.CertificateSerial })
	if again := w.userData(); again != userData {
		a.Errorf("Heat would replace every server: user_data was\n%s\nand is\n%s", userData, again)
	}
	a.c.Figure("enrolled after", "%.0f days", after.EnrolledAt.Sub(*before.EnrolledAt).Hours()/24)
}

// userData is what hitchctl renders for Heat.
func (w *clocks) userData() string {
	w.t.Helper()
	return w.exec(w.controller, "env", "HOME=/root", "NODEHITCH_SERVER=unix:///run/nodehitch/controller.sock", "hitchctl", "render", "user-data", w.stack.instance)
}

const pkiDirectory = "/var/lib/nodehitch/controller/pki"

// pki is the names of the controller's certificates: each intermediate has its own.
func (w *clocks) pki() string { w.t.Helper(); return w.exec(w.controller, "ls", pkiDirectory) }

func (w *clocks) sum(file string) string {
	w.t.Helper()
	return w.exec(w.controller, "sha256sum", pkiDirectory+"/"+file)
}
