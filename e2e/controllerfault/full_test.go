package controllerfault

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

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// The disk fills up under a running controller. It refuses writes with the reason,
// continues to read, keeps nothing of an incomplete upload, starts on the full disk too,
// and accepts writes again when there is space.
func TestFullDisk(t *testing.T) {
	c := begin(t, "full-disk", "a full disk: writes are refused with what to do, reads continue, nothing acknowledged is lost; with free space writes work again")
	d := newDisk(t, 48)
	r := newRig(t, c, d.options())
	r.data = d.seen()
	w := &work{rig: r}
	w.tokens()
	w.files()
	w.instances()
	w.instantiates()
	pid := r.c.PID()

	d.fill()
	made, err := w.crowd(0)
	full(t, err)
	c.Figure("instances made until the disk was full", "%d", made)
	full(t, upload(r, "Files/large", 8<<20))
	full(t, upload(r, "Files/large", 8<<20))
	full(t, client.Done(r.c.API.GetReadyz(t.Context())))
	full(t, client.Done(r.c.API.GetBackup(t.Context())))
	for _, place := range []string{"uploads", "blobs"} {
		if size := weight(t, filepath.Join(r.data, place)); size > 1<<20 {
			t.Errorf("%d bytes of an upload that was refused are left in %s", size, place)
		}
	}
	r.checkLedger()
	if n := bytes.Count(r.c.Log(), []byte("level=ERROR")); n == 0 {
		t.Error("the log has no error")
	}

	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.Done(r.c.API.GetReadyz(t.Context())), upload(r, "Files/large", 8<<20), w.put(instance, "10.30.0.0/24")(), client.Done(r.c.API.GetBackup(t.Context()))); err != nil {
		t.Errorf("there is space again, and %v", err)
	}
	w.ledger["the parameters are there"] = w.there(instance, parameters("10.30.0.0/24"))
	if pid != r.c.PID() {
		t.Error("it was started again")
	}

	d.fill()
	r.c.End(syscall.SIGKILL)
	r.checkStore()
	r.c.Start()
	r.checkLedger()
	if _, err := w.crowd(made); err == nil {
		t.Error("the disk is not full")
	}
	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
	w.converges(w.a)
	r.checkLedger()
	r.final()
}

// crowd makes instances with large parameters until one is refused, and returns how
// many there are now.
func (w *work) crowd(from int) (int, error) {
	for n := from; n < from+2000; n++ {
		id := fmt.Sprintf("c0000000-0000-4000-8000-%012d", n)
		var params map[string]any
		if err := json.Unmarshal(parameters("10.10.0.0/24"), &params); err != nil {
			w.t.Fatal(err)
		}
		params["note"] = strings.Repeat("x", 100_000)
		text, err := json.Marshal(params)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.putWith(id, text)(); err != nil {
			return n, err
		}
		w.ledger["instance "+id+" is there"] = w.there(id, text)
	}
	return from + 2000, nil
}

func upload(r *rig, path string, size int) error {
	return client.Done(r.c.API.PutFileWithBody(r.t.Context(), instance, path, nil, "application/octet-stream", bytes.NewReader(make([]byte, size))))
}

// full wants an answer that says what to do.
func full(t *testing.T, err error) {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != 503 || p.Type != api.ProblemUnavailable || !strings.Contains(p.Detail, "disk is full") || !strings.Contains(p.Detail, "free space") {
		t.Errorf("on a full disk it was answered with %v", err)
	}
}

func weight(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return bytes
}
