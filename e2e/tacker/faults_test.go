package tacker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/controller/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// waiting is a VNF whose instantiate_end waits for a worker that has not booted.
func waiting(t *testing.T) (*vnf, *running) {
	t.Helper()
	v := newWorld(t).newVNF()
	v.instantiateStart()
	v.heat("CREATE_COMPLETE")
	v.workers[1].node = &node{stop: func() {}}
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

func TestTerminateInTheMiddle(t *testing.T) {
	results.Begin(t, suite, "terminate-in-the-middle", "TERMINATE supersedes an instantiation that waits, whose hook says so")
	v, end := waiting(t)
	v.begin("TERMINATE", nil)
	v.call("terminate_start", object{}, nil).succeeds()
	end.raises("superseded")
	v.cloud.Remove(v.stack)
	v.call("terminate_end", object{}, nil).succeeds()
	forgotten(v)
}

func TestTheCloudIsBusy(t *testing.T) {
	results.Begin(t, suite, "cloud-busy", "an END waits while Heat changes the stack and while the cloud does not answer, and raises what Heat says of a failed one")
	v := newWorld(t).newVNF()
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

// TestUploads counts the calls that send package files, one of them in three pieces.
func TestUploads(t *testing.T) {
	results.Begin(t, suite, "uploads", "a large package file is sent in pieces; a changed file replaces the controller's, an unchanged one is not sent")
	w := newWorld(t)
	v := w.newVNF()
	script := filepath.Join(v.folder(), "Scripts/install_k8s_cluster.sh")
	large := "#!/bin/sh\n" + strings.Repeat("# 16 characters\n", 18<<16) // 18 MiB
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(large)
	v.instantiateStart()
	stored := func() (size int64) {
		for _, f := range v.instance().Files {
			if f.Path == "Scripts/install_k8s_cluster.sh" {
				size = f.SizeBytes
			}
		}
		return size
	}
	if got := stored(); got != int64(len(large)) {
		t.Errorf("the controller has %d bytes, want %d", got, len(large))
	}
	if got := w.Logged("operation=putFile", "status=308"); got != 3 { // where to begin, and two of three pieces
		t.Errorf("the controller asked for more %d times, want 3", got)
	}
	uploads := w.Logged("operation=putFile")
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if again := w.Logged("operation=putFile"); again != uploads || uploads < 5 {
		t.Errorf("%d calls have sent files, and %d with the repeated hook, want several and as many", uploads, again)
	}
	write("#!/bin/sh\n")
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if got := stored(); got != 10 {
		t.Errorf("the controller has %d bytes of the changed file, want 10", got)
	}
}

// TestSettings shows what Tacker shows if tacker.conf is wrong.
func TestSettings(t *testing.T) {
	results.Begin(t, suite, "settings", "each fault of tacker.conf is named, and a token that others can read, a wrong pin and a foreign certificate are refused")
	w := newWorld(t)
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
