package agentfault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client"
)

// announce restarts the controller with these controllerUrls.
func (w *workerVNF) announce(urls ...string) {
	w.t.Helper()
	w.End(syscall.SIGTERM)
	w.SetEnv("NODEHITCH_CONTROLLER_CONTROLLER_URLS=" + strings.Join(urls, ","))
	w.Start()
}

// identity is what a move may not change of a node: its certificate, its document, and what
// the agent keeps of it.
type identity struct {
	serial, digest string
	generation     int64
	kept           string
}

func (w *workerVNF) identity(i int, a *loopback.Agent) identity {
	w.t.Helper()
	n := w.Node(w.servers[i])
	file, err := os.Stat(filepath.Join(a.State(), "last-known-good.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return identity{n.CertificateSerial, n.Digest, n.Generation, file.ModTime().String()}
}

// uses waits until the agent polls through the address.
func (w *workerVNF) uses(i int, a *loopback.Agent, url string) {
	w.t.Helper()
	loopback.Until(w.t, fmt.Sprintf("agent %d uses %s", i, url), func() bool {
		c := a.Status().Controller
		return c.Connected && c.URL == url
	})
}

// learned is whether the agent keeps learned addresses.
func learned(a *loopback.Agent) bool {
	_, err := os.Stat(filepath.Join(a.State(), "controllers.json"))
	return err == nil
}

// The controller gets another address. The old one, of agent.yaml, leads to it for a while,
// and then to nobody.
func TestTheControllerMoves(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "controller moves",
		"the controller announces another address, and the old one goes away: every agent that ran goes on with its certificate and its document; one that was off comes back through the old address only")
	old := newForwarder(t)
	old.to = loopback.FreeAddress(t)
	const agents = 4
	w := newWorkerVNF(t, agents, loopback.Options{Address: old.to, Settings: map[string]string{
		"advertiseUrls": "[" + old.url() + "]", "pollSeconds": "5", "convergeSeconds": "10",
	}})
	old.serve(t)
	var all []*loopback.Agent
	for i := range agents {
		all = append(all, w.agent(i))
	}
	var before []identity
	for i, a := range all {
		loopback.Until(t, "it is current", func() bool { return w.current(i) && exists(filepath.Join(a.State(), "last-known-good.json")) })
		before = append(before, w.identity(i, a))
	}
	running, off := all[:agents-1], all[agents-1]
	_ = off.End(syscall.SIGTERM)
	enrolled, _ := w.enrollments()

	w.announce(w.URL, old.url())
	for i, a := range running {
		w.uses(i, a, w.URL)
		if got := w.identity(i, a); got != before[i] {
			t.Errorf("agent %d was %+v and is %+v", i, before[i], got)
		}
		if urls := a.Status().Controller.URLs; !slices.Equal(urls, []string{w.URL, old.url()}) {
			t.Errorf("agent %d has the addresses %v", i, urls)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(loopback.Bin(t), "nodehitch-agent-amd64"), "status", "--status-file", running[0].StatusFile()).CombinedOutput()
	if want := fmt.Sprintf("%s (learned, in use), %s\n", w.URL, old.url()); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: status does not show %q:\n%s", err, want, out)
	}

	old.stop()
	w.change()
	for i := range running {
		loopback.Until(t, "it is current without the old address", func() bool { return w.current(i) })
	}
	_ = running[0].End(syscall.SIGTERM)
	_ = running[1].End(syscall.SIGKILL)
	running[0].Start()
	running[1].Start()
	off.Start()
	w.change()
	for i := range running {
		loopback.Until(t, "it is current after a restart", func() bool { return w.current(i) })
	}
	loopback.Until(t, "the one that was off says that the old address does not answer", func() bool {
		return strings.Contains(off.Status().Controller.LastError, "connection refused")
	})
	if w.current(agents-1) || off.Status().Controller.Connected {
		t.Error("the agent that was off has come back without the old address")
	}
	old.listen(t, strings.TrimPrefix(old.url(), "https://"))
	old.serve(t)
	w.uses(agents-1, off, w.URL)
	loopback.Until(t, "the one that was off is current", func() bool { return w.current(agents - 1) })

	w.announce() // takes it back
	for i, a := range all {
		w.uses(i, a, old.url())
		loopback.Until(t, "it has forgotten the other address", func() bool { return !learned(a) })
		if serial := w.Node(w.servers[i]).CertificateSerial; serial != before[i].serial {
			t.Errorf("agent %d had the certificate %s and has %s", i, before[i].serial, serial)
		}
	}
	after, reissued := w.enrollments()
	if after != enrolled || reissued > 0 || w.refusals() > 0 {
		t.Errorf("%d enrollments before the move, %d after it, %d again, %d refused", enrolled, after, reissued, w.refusals())
	}
	r.Figure("agents", "%d", agents)
	r.Figure("enrollments by the move", "%d", after-enrolled)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// What a controller announces by mistake: a name that does not exist, an address where
// nobody listens, the controller of another CA, and one of its own CA with a restored state.
func TestAWrongAnnouncementLosesNobody(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "wrong announcement",
		"the controller announces addresses that do not exist, another controller's, and that of a restored copy of itself: the agents say why they do not use them, and lose nothing")
	const agents = 2
	w := newWorkerVNF(t, agents, loopback.Options{})
	var all []*loopback.Agent
	for i := range agents {
		all = append(all, w.agent(i))
	}
	for i := range all {
		loopback.Until(t, "it is current", func() bool { return w.current(i) })
	}
	foreign, copied := loopback.Open(t, loopback.Options{}), w.restoredCopy()
	wrong := map[string]string{ // and what the agent says of it
		"https://controler.invalid:8443":     "no such host",
		"https://" + loopback.FreeAddress(t): "connection refused",
		foreign.URL:                          "certificate",
		copied.URL:                           "it answers in epoch",
	}
	var urls []string
	for url := range wrong {
		urls = append(urls, url)
	}
	w.announce(urls...)
	for i, a := range all {
		for url, why := range wrong {
			loopback.Until(t, fmt.Sprintf("agent %d says why it does not use %s", i, url), func() bool {
				for line := range bytes.Lines(a.Log()) {
					if bytes.Contains(line, []byte("does not work")) && bytes.Contains(line, []byte("url="+url)) {
						if !bytes.Contains(line, []byte(why)) {
							t.Fatalf("it does not say %q: %s", why, line)
						}
						return true
					}
				}
				return false
			})
		}
	}
	w.change()
	for i, a := range all {
		loopback.Until(t, "it has the next document", func() bool { return w.current(i) })
		if c := a.Status().Controller; c.URL != w.URL || len(c.Learned) > 0 || learned(a) {
			t.Errorf("agent %d uses %s and has learned %v", i, c.URL, c.Learned)
		}
	}
	if _, reissued := w.enrollments(); reissued > 0 || w.refusals() > 0 {
		t.Errorf("%d certificates were issued again, %d enrollments refused", reissued, w.refusals())
	}
	for name, n := range map[string]int{"foreign": foreign.Logged("operation=putNodeStatus"), "copy": copied.Logged("operation=putNodeStatus")} {
		if n > 0 {
			t.Errorf("the %s got %d reports", name, n)
		}
	}
	r.Figure("wrong addresses", "%d", len(wrong))
}

// restoredCopy is a controller with this one's CA and the backup of its state, confirmed: it
// answers the agents, in another epoch.
func (w *workerVNF) restoredCopy() *loopback.Controller {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	file := filepath.Join(w.t.TempDir(), "nodehitch.tar")
	_, err := w.Hitchctl("backup", file)
	must(err)
	c := loopback.Open(w.t, loopback.Options{Settings: map[string]string{"log": "{level: debug}"}})
	c.End(syscall.SIGTERM)
	must(errors.Join(os.RemoveAll(c.Data()), os.Mkdir(c.Data(), 0o700)))
	for _, argv := range [][]string{
		{"cp", "-a", filepath.Join(w.Data(), "pki"), filepath.Join(w.Data(), "seal.key"), c.Data()},
		{filepath.Join(loopback.Bin(w.t), "nodehitch-controller"), "restore", "--config", c.ConfigFile(), file},
	} {
		if out, err := exec.CommandContext(w.t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			w.t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	c.Start()
	_, err = c.Hitchctl("confirm", "instance", "--all", "--yes")
	must(errors.Join(err, client.Done(c.API.GetReadyz(w.t.Context()))))
	return c
}
