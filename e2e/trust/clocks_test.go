package trust

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// clocks are the two machines, and how far each is from the host's clock.
type clocks struct {
	t                *testing.T
	lab              *lab.Lab
	controller, node lab.Node
	api              *loopback.Controller
	there, here      time.Duration // the controller's and the node's
	stack            stack
}

const controllerUnit = `[Service]
Type=notify
ExecStart=/usr/local/bin/nodehitch-controller serve --config /etc/nodehitch/controller.yaml
Restart=no
`

func newClocks(t *testing.T) *clocks {
	w := &clocks{t: t, lab: labtest.Open(t, lab.KindVM)}
	if err := w.lab.BuildImages(t.Context(), lab.KindVM); err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for name, to := range map[string]*lab.Node{"controller": &w.controller, "node": &w.node} {
		group.Go(func() (err error) {
			*to, err = w.lab.VM(t.Context(), lab.Spec{Name: name})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.explain)
	w.set(0, -time.Hour)
	w.startController()
	w.stack = stack{instance: uuid.NewString(), storage: uuid.NewString(), volume: uuid.NewString(), worker: w.node.ServerID()}
	w.api.Put(w.stack.instance, w.stack.topology())
	return w
}

func (w *clocks) explain() {
	if !w.t.Failed() {
		return
	}
	for unit, on := range map[string]lab.Node{"nodehitch-controller": w.controller, "nodehitch-agent": w.node} {
		out, err := on.Exec(context.WithoutCancel(w.t.Context()), "journalctl", "--no-pager", "-n", "60", "-u", unit)
		w.t.Logf("%s (%v):\n%s", unit, err, out)
	}
}

func (w *clocks) exec(on lab.Node, argv ...string) string {
	w.t.Helper()
	out, err := on.Exec(w.t.Context(), argv...)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

func (w *clocks) push(on lab.Node, path string, mode os.FileMode, content []byte) {
	w.t.Helper()
	if err := on.Push(w.t.Context(), path, mode, content); err != nil {
		w.t.Fatal(err)
	}
}

func (w *clocks) program(on lab.Node, binary, path string) {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(loopback.Bin(w.t), binary))
	if err != nil {
		w.t.Fatal(err)
	}
	w.push(on, path, 0o755, content)
}

// set sets both clocks, each so far from the host's.
func (w *clocks) set(there, here time.Duration) {
	w.t.Helper()
	w.there, w.here = there, here
	var group errgroup.Group
	for node, offset := range map[lab.Node]time.Duration{w.controller: there, w.node: here} {
		group.Go(func() error {
			_, err := node.Exec(w.t.Context(), "date", "-s", fmt.Sprintf("@%d", time.Now().Add(offset).Unix()))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time go by on both machines.
func (w *clocks) pass(d time.Duration) { w.t.Helper(); w.set(w.there+d, w.here+d) }

// startController installs it, and opens its API with a token that root made.
func (w *clocks) startController() {
	w.t.Helper()
	address := w.controller.Address().String()
	w.program(w.controller, "nodehitch-controller", "/usr/local/bin/nodehitch-controller")
	w.program(w.controller, "hitchctl", "/usr/local/bin/hitchctl")
	w.push(w.controller, "/etc/nodehitch/controller.yaml", 0o644, fmt.Appendf(nil,
		"listen: %[1]s:8443\nnames: [%[1]s]\nadvertiseUrls: [https://%[1]s:8443]\nmetricsListen: \"\"\nattestation: {mode: token}\nlog: {level: debug}\npollSeconds: 5\n", address))
	w.push(w.controller, "/etc/systemd/system/nodehitch-controller.service", 0o644, []byte(controllerUnit))
	w.exec(w.controller, "systemctl", "start", "nodehitch-controller")
	token := w.exec(w.controller, "env", "HOME=/root", "NODEHITCH_SERVER=unix:///run/nodehitch/controller.sock", "hitchctl", "create", "token", "trust", "--expires-in", "never")
	root, err := w.controller.Pull(w.t.Context(), "/var/lib/nodehitch/controller/pki/root.pem")
	if err != nil {
		w.t.Fatal(err)
	}
	at := bytes.Index(root, []byte("-----BEGIN CERTIFICATE"))
	block, _ := pem.Decode(root[max(0, at):])
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(block))
	transport := &http.Transport{DialContext: w.lab.Dial, TLSClientConfig: &tls.Config{RootCAs: roots,
		Time: func() time.Time { return time.Now().Add(w.there) }}}
	w.t.Cleanup(transport.CloseIdleConnections)
	url := "https://" + address + ":8443"
	generated, err := client.NewClient(url, client.WithHTTPClient(&http.Client{Transport: transport, Timeout: time.Minute}),
		client.WithRequestEditorFn(client.Bearer(strings.TrimSpace(token))))
	if err != nil {
		w.t.Fatal(err)
	}
	w.api = loopback.Elsewhere(w.t, url, &client.Controller{Client: generated})
}

// startAgent installs the agent as the downloader does.
func (w *clocks) startAgent() {
	w.t.Helper()
	config := w.api.AgentConfig(w.stack.instance)
	config.StateDirectory, config.Log.Level = "/var/lib/nodehitch/agent", "debug"
	text, err := json.Marshal(config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.push(w.node, "/etc/nodehitch/agent.yaml", 0o600, text)
	w.program(w.node, "nodehitch-agent-amd64", "/usr/local/bin/nodehitch-agent")
	w.exec(w.node, "/usr/local/bin/nodehitch-agent", "install")
}

func (w *clocks) now() api.Node { return *w.api.Node(w.node.ServerID()) }

// until waits for the machines: they may be emulated and slow.
func (w *clocks) until(a *attempt, what string, ok func(api.Node) bool) api.Node {
	a.Helper()
	deadline, tick := time.After(3*time.Minute), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for {
		if n := w.now(); ok(n) {
			return n
		}
		select {
		case <-deadline:
			a.Fatalf("timed out; expected: %s; the node is %+v", what, w.now())
		case <-tick.C:
		}
	}
}

func enrolledAndReady(n api.Node) bool { return n.State == api.NodeEnrolled && n.Ready }

// renews lets two thirds of the certificate's life pass, on clocks that differ.
func (w *clocks) renews(a *attempt) {
	a.Helper()
	before := w.now()
	w.pass(17 * time.Hour)
	w.renewed(a, before)
}

// renewed waits until another certificate has made a call.
func (w *clocks) renewed(a *attempt, before api.Node) {
	a.Helper()
	from := time.Now().Add(w.there - time.Minute)
	after := w.until(a, "it has renewed and polls", func(n api.Node) bool {
		return n.CertificateSerial != before.CertificateSerial && n.LastSeenAt != nil && n.LastSeenAt.After(from) && enrolledAndReady(n)
	})
	if !after.EnrolledAt.Equal(*before.EnrolledAt) {
		a.Errorf("it enrolled anew: %v, before %v", after.EnrolledAt, before.EnrolledAt)
	}
}
