package agentfault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// outcome is what follows from a damaged file.
type outcome int

const (
	recovers outcome = iota // the node is Ready again without help, with its certificate
	// reissues: the same with another certificate, over the key that was whole.
	reissues
	// waits: the status has the command for the operator, which helps.
	waits
	// named: the status or the log names the file, and the node is Ready when it is
	// taken away.
	named
)

// damage of one file of the state directory.
type damage struct {
	file, how string
	do        func(path string) error
	then      outcome
}

func (d damage) String() string { return d.file + " " + d.how }

// with puts content in place of the file.
func with(content func(old []byte) []byte) func(string) error {
	return func(path string) error {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return os.WriteFile(path, content(old), 0o600)
	}
}

func empty([]byte) []byte        { return nil }
func garbage([]byte) []byte      { return []byte("\x7fELF not at all") }
func zeros(old []byte) []byte    { return make([]byte, len(old)) }
func cut(old []byte) []byte      { return old[:len(old)*9/10] }
func cutInKey(old []byte) []byte { return old[:100] }
func null([]byte) []byte         { return []byte("null") }

// nobody makes every learned address one where nobody is.
func nobody(path string) error {
	document, err := os.ReadFile(filepath.Join(filepath.Dir(path), "last-known-good.json"))
	if err != nil {
		return err
	}
	var doc api.NodeConfig
	if err := json.Unmarshal(document, &doc); err != nil {
		return err
	}
	var urls []state.ControllerURL
	for port := range api.MaxControllerURLs {
		urls = append(urls, state.ControllerURL{URL: fmt.Sprintf("https://127.0.0.1:%d", port+1), Epoch: doc.Epoch})
	}
	text, err := json.Marshal(urls)
	return errors.Join(err, os.WriteFile(path, text, 0o600))
}

func directory(path string) error {
	return errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Join(path, "x"), 0o755))
}

// damages of every file that the agent of a worker keeps.
func damages() []damage {
	open := func(path string) error { return os.Chmod(path, 0o666) }
	closed := func(path string) error { return os.Chmod(path, 0) }
	foreign := func(path string) error { return os.Chown(path, 1000, 1000) }
	all := []damage{
		{"identity.pem", "is empty", with(empty), waits},
		{"identity.pem", "is garbage", with(garbage), waits},
		{"identity.pem", "is zeros", with(zeros), waits},
		{"identity.pem", "is cut off in the key", with(cutInKey), waits},
		{"identity.pem", "is cut off behind the key", with(cut), reissues},
		{"identity.pem", "is missing", os.Remove, waits},
		{"identity.pem", "is a directory", directory, named},
		{"identity-next.pem", "is empty", with(empty), recovers},
		{"identity-next.pem", "is garbage", with(garbage), recovers},
		{"key-next.pem", "is garbage", with(garbage), recovers},
		{"key-next.pem", "is a directory", directory, recovers},
		{"controllers.json", "is garbage", with(garbage), recovers},
		{"controllers.json", "is a directory", directory, recovers},
		{"controllers.json", "has addresses where nobody is", nobody, recovers},
	}
	for _, file := range []string{"machine.json", "last-known-good.json"} {
		all = append(all,
			damage{file, "is empty", with(empty), recovers},
			damage{file, "is garbage", with(garbage), recovers},
			damage{file, "is zeros", with(zeros), recovers},
			damage{file, "is null", with(null), recovers},
			damage{file, "is cut off", with(cut), recovers},
			damage{file, "is missing", os.Remove, recovers})
	}
	for _, file := range []string{"identity.pem", "machine.json", "last-known-good.json"} {
		all = append(all,
			damage{file, "is open to all", open, recovers},
			damage{file, "is closed", closed, recovers},
			damage{file, "belongs to another", foreign, recovers})
	}
	return append(all,
		damage{"last-known-good.json", "is a directory", directory, named},
		damage{"machine.json", "is a directory", directory, recovers},
		damage{".", "belongs to another", foreign, named},
		damage{"../status.json", "is garbage", with(garbage), recovers},
		damage{"../status.json", "is a directory", directory, named},
		damage{"../lock", "is garbage", with(garbage), recovers},
		damage{"../lock", "is a directory", directory, named})
}

// As many agents as there are damages, all killed, each with another damage, all
// started again.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	all := damages()
	r := results.Begin(t, suite, "damaged files of the agent",
		"each file empty, cut off, garbage, missing, a directory, owned by another user: the node comes back with its identity, or names the file and what to do; no new identity without the operator")
	w := newWorkerVNF(t, len(all), loopback.Options{})
	agents := make([]*loopback.Agent, len(all))
	for i := range all {
		agents[i] = w.agent(i)
	}
	serials := make([]string, len(all))
	for i, a := range agents {
		loopback.Until(t, all[i].String()+": it is current before", func() bool {
			_, err := os.Stat(filepath.Join(a.State(), "last-known-good.json"))
			return err == nil && w.current(i)
		})
		serials[i] = w.Node(w.servers[i]).CertificateSerial
		_ = a.End(syscall.SIGKILL)
	}
	for i, d := range all {
		if err := d.do(filepath.Join(agents[i].State(), d.file)); err != nil {
			t.Fatalf("%s: %v", d, err)
		}
	}
	w.change()
	for _, a := range agents {
		a.Start()
	}
	outcomes := map[outcome]int{}
	for i, d := range all {
		outcomes[d.then]++
		w.says(t, r, i, d, agents[i], serials[i])
	}
	for i, d := range all {
		w.isBack(t, i, d, agents[i], serials[i])
	}
	if w.refused < outcomes[waits] {
		t.Errorf("%d enrollments were refused, of %d that had to be", w.refused, outcomes[waits])
	}
	r.Figure("damaged files", "%d", len(all))
	r.Figure("enrollments refused", "%d", w.refused)
	r.Figure("recovered without help", "%d", outcomes[recovers]+outcomes[reissues])
	r.Figure("recovered with the operator's command", "%d", outcomes[waits])
	r.Figure("recovered after removing the named file", "%d", outcomes[named])
}

// says waits for what the operator is told, and does it.
func (w *workerVNF) says(t *testing.T, r *results.Case, i int, d damage, a *loopback.Agent, serial string) {
	t.Helper()
	path := filepath.Join(a.State(), d.file)
	if d.then == named {
		loopback.Until(t, d.String()+": it is named", func() bool {
			s := a.Status()
			return strings.Contains(fmt.Sprint(s.Problem, s.Unsaved, s.Controller.LastError)+string(a.Log()), path)
		})
		if d.file == "." {
			if err := os.Chown(path, 0, 0); err != nil {
				t.Fatal(err)
			}
			_ = a.Wait() // it has ended, and the service manager starts it again
			a.Start()
		} else if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if d.then == waits || d.file == "identity.pem" && d.then == named { // lost with what was in its place
		w.waitsForTheOperator(t, r, i, d, a, serial)
	}
}

func (w *workerVNF) waitsForTheOperator(t *testing.T, r *results.Case, i int, d damage, a *loopback.Agent, serial string) {
	t.Helper()
	id := w.servers[i]
	now := serial
	loopback.Until(t, d.String()+": the status has the command", func() bool {
		now = w.Node(id).CertificateSerial
		return now != serial || strings.Contains(a.Status().Summary(), "hitchctl node reenroll "+id)
	})
	w.refused += w.refusals("node=" + id)
	r.Unauthorised(0)
	if now != serial {
		r.Unauthorised(1)
		t.Errorf("%s: it got the certificate %s in place of %s without the operator", d, now, serial)
		return
	}
	if _, err := client.Read[api.Node](w.API.ReenrollNode(t.Context(), id)); err != nil {
		t.Fatal(err)
	}
}

// isBack waits until the node is Ready for its new document, as itself.
func (w *workerVNF) isBack(t *testing.T, i int, d damage, a *loopback.Agent, serial string) {
	t.Helper()
	id := w.servers[i]
	loopback.Until(t, d.String()+": it is current again", func() bool { return w.current(i) })
	same := w.Node(id).CertificateSerial == serial
	if keeps := d.then == recovers || d.then == named && d.file != "identity.pem"; keeps != same {
		t.Errorf("%s: the certificate is the one before: %v, expected %v", d, same, keeps)
	}
	if s := a.Status(); d.file != "../status.json" && s.NodeID != id {
		t.Errorf("%s: it calls itself %q", d, s.NodeID)
	}
	if bytes.Contains(a.Log(), []byte("panic")) {
		t.Errorf("%s: it panicked", d)
	}
}
