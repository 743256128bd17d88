package agentfault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// small is a file system with room for little.
type small struct {
	t    *testing.T
	path string
}

func newSmall(t *testing.T) small {
	t.Helper()
	s := small{t, filepath.Join(t.TempDir(), "state")}
	if err := errors.Join(os.Mkdir(s.path, 0o700), syscall.Mount("tmpfs", s.path, "tmpfs", 0, "size=128k,mode=0700")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fill takes all the room that is left.
func (s small) fill() {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.path, "ballast"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		s.t.Fatal(err)
	}
}

func (s small) empty() {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.path, "ballast")); err != nil {
		s.t.Fatal(err)
	}
}

// contents reads files of it.
func (s small) contents(names ...string) map[string][]byte {
	s.t.Helper()
	files := map[string][]byte{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(s.path, name))
		if err != nil {
			s.t.Fatal(err)
		}
		files[name] = content
	}
	return files
}

// clean fails the test if an unfinished file is left.
func (s small) clean() {
	s.t.Helper()
	left, err := filepath.Glob(filepath.Join(s.path, ".*"))
	if err != nil || len(left) > 0 {
		s.t.Errorf("left behind: %v, %v", left, err)
	}
}

// in starts the agent of a server with its state in the small file system.
func (w *workerVNF) in(s small, i int) *loopback.Agent {
	config := w.AgentConfig(w.instance)
	config.StateDirectory = s.path
	return loopback.StartAgent(w.t, loopback.AgentOptions{ServerID: w.servers[i], Config: config})
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "the agent's disk is full",
		"an enrolled agent follows new documents, reports what it cannot keep, and survives a kill; one that is not enrolled asks for no certificate; with free space again both recover")
	w := newWorkerVNF(t, 2, loopback.Options{})
	s := newSmall(t)
	a := w.in(s, 0)
	loopback.Until(t, "it is current", func() bool {
		_, err := os.Stat(filepath.Join(s.path, "last-known-good.json"))
		return err == nil && w.current(0)
	})
	serial := w.Node(w.servers[0]).CertificateSerial
	files := s.contents("identity.pem", "last-known-good.json", "machine.json")
	s.fill()
	w.change()
	loopback.Until(t, "it follows the document, and reports what is wrong", func() bool {
		ready := w.Node(w.servers[0]).Status.Condition(api.ConditionReady)
		return w.current(0) && strings.Contains(ready.Message, "no space left on device")
	})
	_ = a.End(syscall.SIGKILL)
	s.clean()
	for name, before := range files {
		now, err := os.ReadFile(filepath.Join(s.path, name))
		if err != nil || !bytes.Equal(now, before) {
			t.Errorf("%s is\n%s\nwas\n%s (%v)", name, now, before, err)
		}
		r.Lost(results.Differing(now, before))
	}
	r.Figure("files compared on the full disk", "%d", len(files))
	a.Start()
	loopback.Until(t, "it is current after a kill, on the full disk", func() bool {
		return a.Status().Controller.Connected && a.Status().Node.AppliedGeneration == w.Node(w.servers[0]).Generation && w.current(0)
	})

	late := newSmall(t)
	late.fill()
	b := w.in(late, 1)
	loopback.Until(t, "the other says why it does not enroll", func() bool { return strings.Contains(b.Status().Summary(), "no space left on device") })
	if n := w.Node(w.servers[1]); n.CertificateSerial != "" {
		t.Errorf("it got the certificate %s, which it cannot keep", n.CertificateSerial)
	}
	late.clean()

	s.empty()
	late.empty()
	loopback.Until(t, "both are current, and the documents are kept", func() bool {
		ready := w.Node(w.servers[0]).Status.Condition(api.ConditionReady)
		_, err := os.Stat(filepath.Join(late.path, "last-known-good.json"))
		return err == nil && w.current(0) && w.current(1) && ready.Message == "" && a.Status().Unsaved == ""
	})
	if now := w.Node(w.servers[0]).CertificateSerial; now != serial {
		t.Errorf("the certificate was %s and is %s", serial, now)
	}
	for _, each := range []small{s, late} {
		each.clean()
	}
}
