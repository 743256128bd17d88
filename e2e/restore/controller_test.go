package restore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	instance = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"
	storage  = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	worker   = "7f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	spare    = "8f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	volume   = "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b11"
	size     = 1 << 30
)

// controller is a controller with one instance: a storage server with its volume, and two
// workers.
type controller struct {
	*loopback.Controller
	t testing.TB
	c *results.Case
	// asked counts the requests that had to be refused.
	asked int
}

func begin(t *testing.T, name, shows string) *controller {
	t.Helper()
	c := results.Begin(t, "restore", name, shows)
	w := &controller{Controller: loopback.Open(t, loopback.Options{}), t: t, c: c}
	t.Cleanup(func() {
		if w.asked > 0 {
			c.Figure("requests that had to be refused", "%d", w.asked)
		}
	})
	w.Put(instance, loopback.StorageTopology(storage, volume, size, worker, spare))
	return w
}

// both runs the trial twice: with the replaced state lost, so that only the backup is
// known; and with it there, so that it is carried over.
func both(t *testing.T, name, shows string, trial func(w *controller, lost bool)) {
	t.Helper()
	for end, lost := range map[string]bool{"store lost": true, "store replaced": false} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			trial(begin(t, name+", "+end, shows), lost)
		})
	}
}

func (w *controller) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// backup takes one as an operator does.
func (w *controller) backup() string {
	w.t.Helper()
	path := filepath.Join(w.t.(*testing.T).TempDir(), "nodehitch.tar")
	w.Must("backup", path)
	return path
}

// restored stops the controller, restores the backup and starts it again.
func (w *controller) restored(file string, lost bool) {
	w.t.Helper()
	w.End(syscall.SIGTERM)
	args := []string{"--replace", file}
	if lost {
		args = args[1:]
		w.must(errors.Join(os.Remove(filepath.Join(w.Data(), "store.db")), os.RemoveAll(filepath.Join(w.Data(), "blobs"))))
	}
	out, err := w.restore(args...)
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	w.t.Logf("%s", out)
	w.Start()
}

// restore is nodehitch-controller restore; out is all that it said.
func (w *controller) restore(args ...string) (out string, err error) {
	w.t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(loopback.Bin(w.t), "nodehitch-controller"),
		append([]string{"restore", "--config", w.ConfigFile()}, args...)...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	return b.String(), err
}

func (w *controller) confirm() {
	w.t.Helper()
	w.Must("confirm", "instance", instance, "--yes")
}

// refused counts a request that must be refused; the problem is one of these.
func (w *controller) refused(what string, err error, problems ...string) {
	w.t.Helper()
	var p *api.Problem
	if err != nil && !errors.As(err, &p) { // without an answer nothing was refused
		w.t.Errorf("%s: %v, want one of %v", what, err, problems)
		return
	}
	w.letIn(what, err == nil)
	if err != nil && !slices.Contains(problems, p.Type) {
		w.t.Errorf("%s: %s (%s), want one of %v", what, p.Type, p.Detail, problems)
	}
}

// letIn counts a request that had to be refused, and as unauthorised if it was not.
func (w *controller) letIn(what string, it bool) {
	w.t.Helper()
	w.asked++
	w.c.Unauthorised(0)
	if it {
		w.c.Unauthorised(1)
		w.t.Errorf("%s was not refused", what)
	}
}

// kept counts content that had to survive, as lost if it has changed.
func (w *controller) kept(what, got, want string) {
	w.t.Helper()
	w.c.Lost(0)
	if got != want {
		w.c.Lost(int64(len(want)))
		w.t.Errorf("%s is %q, want %q", what, got, want)
	}
}

func (w *controller) allowed(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Errorf("%s was refused: %v", what, err)
	}
}

func (w *controller) instance() api.Instance {
	w.t.Helper()
	i, err := client.Read[api.Instance](w.API.GetInstance(w.t.Context(), instance, nil))
	w.must(err)
	return *i
}

func (w *controller) volume() api.Volume {
	w.t.Helper()
	v, err := client.Read[api.Volume](w.API.GetVolume(w.t.Context(), volume, nil))
	w.must(err)
	return *v
}
