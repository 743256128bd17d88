package tacker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// largeScript is a file of a VNF package that is sent in three pieces.
const largeScript = "Scripts/install_k8s_cluster.sh"

// writeScript replaces it.
func (v *vnf) writeScript(text string) {
	v.t.Helper()
	if err := os.WriteFile(filepath.Join(v.folder(), largeScript), []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// stored is how many bytes of it the controller has.
func (v *vnf) stored() (size int64) {
	v.t.Helper()
	for _, f := range v.instance().Files {
		if f.Path == largeScript {
			size = f.SizeBytes
		}
	}
	return size
}

var large = "#!/bin/sh\n" + strings.Repeat("# 16 characters\n", 18<<16) // 18 MiB

// TestUploads counts the calls that send package files, one of them in three pieces.
func TestUploads(t *testing.T) {
	results.Begin(t, suite, "uploads", "a large package file is sent in pieces; a changed file replaces the controller's, an unchanged one is not sent")
	w := newWorld(t)
	v := w.newVNF()
	v.writeScript(large)
	v.instantiateStart()
	if got := v.stored(); got != int64(len(large)) {
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
	v.writeScript("#!/bin/sh\n")
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if got := v.stored(); got != 10 {
		t.Errorf("the controller has %d bytes of the changed file, want 10", got)
	}
}

// TestAnUploadThatIsCut kills the hook in the middle of a piece. What has arrived is not sent
// again.
func TestAnUploadThatIsCut(t *testing.T) {
	c := results.Begin(t, suite, "upload-cut", "a hook that is killed in the middle of a large file is called again: it sends only what has not arrived")
	w := newWorld(t)
	v, d := w.newVNF(), newDoor(t, w.URL)
	w.configure(map[string]string{"urls": d.url()})
	v.writeScript(large)
	const arrived = 13 << 20 // in the second piece
	came, over := make(chan struct{}), make(chan struct{})
	d.after(arrived, func() {
		close(came)
		<-over
	})
	v.begin("INSTANTIATE", v.body)
	hook := v.call("instantiate_start", v.instantiateRequest(), nil)
	<-came
	_ = hook.process.Process.Kill()
	<-hook.process.Ended()
	close(over)
	if got := v.stored(); got != 0 {
		t.Fatalf("the controller has %d bytes of a file that was cut", got)
	}
	d.before(nil)
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if got := v.stored(); got != int64(len(large)) {
		t.Errorf("the controller has %d bytes, want %d", got, len(large))
	}
	again := d.passed()
	c.Figure("sent again", "%.1f of %d MiB, %d had arrived", float64(again)/(1<<20), len(large)>>20, arrived>>20)
	// TLS and the other calls need some more than the file itself.
	if most := int64(len(large) - arrived + 1<<20); again > most {
		t.Errorf("%d bytes were sent again, want at most %d", again, most)
	}
}
