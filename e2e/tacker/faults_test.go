package tacker

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// waiting is a VNF whose instantiate_end waits for a worker that has not booted.
func waiting(t *testing.T) (*vnf, *running) {
	t.Helper()
	v := newTackerMachine(t).newVNF()
	v.instantiateStart()
	v.heat("CREATE_COMPLETE")
	v.late(v.workers[1])
	v.boot()
	v.workers[1].node = nil
	end := v.call("instantiate_end", v.instantiateRequest(), nil)
	loopback.Until(t, "the END is in progress", func() bool { return v.newest().Phase == api.PhaseEnd })
	return v, end
}

func TestTheControllerIsAwayAndBack(t *testing.T) {
	results.Begin(t, suite, "controller-away", "hooks that begin or wait while the controller is killed go on when it is back")
	v, end := waiting(t)
	v.End(syscall.SIGKILL)
	v.Start()
	v.boot()
	end.succeeds()
	v.asRecorded(1, "INSTANTIATE END COMPLETED")

	v.End(syscall.SIGTERM)
	v.begin("MODIFY_INFO", nil)
	start := v.call("modify_information_start", nil, nil)
	v.Start()
	start.succeeds()
	v.asRecorded(2, "MODIFY_INFO START COMPLETED")

	v.configure(map[string]string{"urls": "https://127.0.0.1:9 " + v.URL})
	v.call("modify_information_end", nil, nil).succeeds()
}

func TestTheDriverIsKilled(t *testing.T) {
	results.Begin(t, suite, "driver-killed", "a hook that was killed left its operation running: the retry joins it; at its own deadline it cancels it")
	v, end := waiting(t)
	_ = end.process.Process.Kill()
	_ = end.process.How()
	v.configure(map[string]string{"deadline": "2"})
	v.call("instantiate_end", v.instantiateRequest(), nil).raises("INSTANTIATE END", "cancelled", "workerNode ("+v.workers[1].id+"): NotEnrolled")
	if o := v.newest(); o.CancelledBy != "token tacker" {
		t.Errorf("the END was cancelled by %q", o.CancelledBy)
	}
	v.asRecorded(1, "INSTANTIATE END FAILED")
	v.configure(nil)
	v.boot()
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
}

func TestTackerEndsTheHook(t *testing.T) {
	results.Begin(t, suite, "hook-interrupted", "an exception that ends the hook cancels its operation")
	v, end := waiting(t)
	loopback.Until(t, "the hook waits", func() bool { return strings.Contains(end.stderr.String(), "waiting for INSTANTIATE END") })
	if err := end.process.Process.Signal(syscall.SIGINT); err != nil { // KeyboardInterrupt
		t.Fatal(err)
	}
	_ = end.process.How()
	if o := v.newest(); o.State != api.Failed || o.CancelledBy != "token tacker" {
		t.Errorf("the END is %s, cancelled by %q", o.State, o.CancelledBy)
	}
}

// TestTerminateInTheMiddle terminates a VNF while another hook works on it. Tacker itself
// does that only after the operation was called failed.
func TestTerminateInTheMiddle(t *testing.T) {
	for name, middle := range map[string]struct {
		// begin begins a hook and returns when it is in the middle; goOn lets it go on.
		begin func(*stage) (hook *running, goOn func())
		says  string
	}{
		"upload": {begin: func(s *stage) (*running, func()) {
			came, over := make(chan struct{}), make(chan struct{})
			s.door.before(func(call int) bool {
				if call == 2 { // after the PUT of the instance
					close(came)
				}
				if call >= 2 {
					<-over
				}
				return true
			})
			s.begin("INSTANTIATE", s.body)
			hook := s.call("instantiate_start", s.instantiateRequest(), nil)
			<-came
			s.configure(nil) // of the hooks that follow
			return hook, func() { close(over) }
		}, says: "no such object"},
		"nodes": {begin: func(s *stage) (*running, func()) {
			s.instantiateStart()
			s.late(s.workers[1])
			s.created()
			hook := s.call("instantiate_end", s.instantiateRequest(), nil)
			loopback.Until(s.t, "the END is in progress", func() bool { return s.newest().Phase == api.PhaseEnd })
			return hook, func() {}
		}, says: "superseded"},
		"heat": {begin: func(s *stage) (*running, func()) {
			s.instantiateStart()
			s.heat("CREATE_IN_PROGRESS")
			s.cloud.Forget()
			hook := s.call("instantiate_end", s.instantiateRequest(), nil)
			loopback.Until(s.t, "the stack was observed", func() bool { return s.cloud.Calls()[openstacktest.Stacks] > 0 })
			return hook, func() {}
		}, says: "no such object"},
	} {
		t.Run(name, func(t *testing.T) {
			results.Begin(t, suite, "terminate-in-the-middle/"+name, "TERMINATE ends an instantiation whose hook uploads files, waits for nodes or waits for Heat; that hook says so")
			w := newTackerMachine(t)
			s := &stage{vnf: w.newVNF(), door: newDoor(t, w.URL)}
			w.configure(map[string]string{"urls": s.door.url()})
			hook, goOn := middle.begin(s)
			s.begin("TERMINATE", nil)
			s.call("terminate_start", object{}, nil).succeeds()
			for _, each := range s.servers() {
				if each.node != nil {
					s.gone(each)
				}
			}
			w.cloud.Remove(s.stack)
			s.stack = ""
			s.call("terminate_end", object{}, nil).succeeds()
			s.door.before(nil)
			goOn()
			hook.raises(middle.says)
			if n := s.door.made(); n > 8 { // the files that are left, and START
				t.Errorf("the hook made %d more calls; nothing is to be waited for", n)
			}
			forgotten(s.vnf)
		})
	}
}

func TestTheCloudIsBusy(t *testing.T) {
	results.Begin(t, suite, "cloud-busy", "an END waits while Heat changes the stack and while the cloud does not answer, and raises what Heat says of a failed one")
	v := newTackerMachine(t).newVNF()
	v.instantiateStart()
	v.heat("CREATE_IN_PROGRESS")
	v.cloud.Forget()
	end := v.call("instantiate_end", v.instantiateRequest(), nil)
	observed := func() bool { return v.cloud.Calls()[openstacktest.Stacks] > 0 }
	loopback.Until(t, "the stack was observed", observed)
	v.cloud.Fail(openstacktest.Stacks, openstacktest.Fault{Status: 503})
	v.cloud.Forget()
	loopback.Until(t, "the cloud was asked again", observed)
	v.heat("CREATE_COMPLETE")
	v.cloud.Fail(openstacktest.Stacks, openstacktest.Fault{})
	v.boot()
	end.succeeds()
	v.asRecorded(1, "INSTANTIATE END COMPLETED")
}

// TestSettings shows what Tacker shows if tacker.conf is wrong.
func TestSettings(t *testing.T) {
	results.Begin(t, suite, "settings", "each fault of tacker.conf is named, and a token of another user or that others can read, a wrong pin, a foreign certificate and one behind the pinned one are refused")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.begin("INSTANTIATE", v.body)
	raises := func(settings map[string]string, texts ...string) {
		t.Helper()
		w.configure(settings)
		v.call("instantiate_start", v.instantiateRequest(), nil).raises(texts...)
	}
	raises(map[string]string{"url": "x", "deadline": "soon", "send_vim_connection_info": "perhaps", "token_file": "/nowhere"},
		w.path("tacker.conf"), "url: unknown key", "deadline: is 'soon'", "send_vim_connection_info: is 'perhaps'", "token_file: ")
	raises(map[string]string{"pin": "sha256:00"}, "the pin is sha256:00")
	raises(map[string]string{"urls": "http://127.0.0.1"}, "expected https://host:port")
	foreign := testca.Root(t, "another controller")
	if err := os.WriteFile(w.path("foreign.pem"), foreign.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	raises(map[string]string{"root_certificate": w.path("foreign.pem"), "pin": client.Pin(foreign.Cert)}, "no controller answered", "certificate verify failed")
	// The pin is that of the first certificate, and the controller's own is behind it.
	own, err := os.ReadFile(w.path("root.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"two.pem": string(foreign.PEM()) + string(own), "joined.pem": strings.TrimSpace(string(foreign.PEM())) + string(own)} {
		if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		raises(map[string]string{"root_certificate": w.path(name), "pin": client.Pin(foreign.Cert)}, "expected the root alone")
	}
	// One block has both, and the pin is that of its content.
	block, _ := pem.Decode(own)
	both := slices.Concat(foreign.Cert.Raw, block.Bytes)
	if err := os.WriteFile(w.path("both.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: both}), 0o600); err != nil {
		t.Fatal(err)
	}
	raises(map[string]string{"root_certificate": w.path("both.pem"), "pin": fmt.Sprintf("sha256:%x", sha256.Sum256(both))}, "expected the root alone")
	if err := os.Chown(w.path("token"), 65534, 0); err != nil {
		t.Fatal(err)
	}
	raises(nil, "belongs to user 65534")
	if err := os.Chown(w.path("token"), os.Geteuid(), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.path("token"), 0o640); err != nil {
		t.Fatal(err)
	}
	raises(nil, "has mode 0640", "chmod 600 "+w.path("token"))
	if err := os.WriteFile(w.path("token"), []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.path("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	raises(nil, "not authenticated")
}
