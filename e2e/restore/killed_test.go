package restore

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const kills = 8

func (w *world) putScript(content string) {
	w.t.Helper()
	_, err := client.Read[api.PackageFile](w.API.PutFileWithBody(w.t.Context(), instance, "Scripts/install.sh", nil, "application/octet-stream", strings.NewReader(content)))
	w.must(err)
}

func (w *world) script() string {
	w.t.Helper()
	resp, err := w.API.GetFile(w.t.Context(), instance, "Scripts/install.sh", nil)
	w.must(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("the package file: %v", client.ProblemOf(resp))
	}
	var b [64]byte
	n, _ := resp.Body.Read(b[:])
	return string(b[:n])
}

func TestARestoreThatIsKilled(t *testing.T) {
	w := begin(t, "restore killed", "a restore that is killed at any moment has changed nothing or is done, and the next one goes through")
	const of, after = "#!/bin/sh\n# of the backup\n", "#!/bin/sh\n# after it\n"
	w.putScript(of)
	file := w.backup()
	w.putScript(after)
	w.End(syscall.SIGTERM)
	begun := time.Now()
	w.killed(time.Minute, "--replace", file)
	whole, done := time.Since(begun), 0
	w.Start()
	w.confirm()
	w.putScript(after)
	w.End(syscall.SIGTERM)
	for i := range kills {
		w.killed(whole*time.Duration(i+1)/kills, "--replace", file)
		w.Start()
		restored := w.instance().Unconfirmed != nil
		switch got := w.script(); {
		case restored && got == of, !restored && got == after:
		default:
			w.c.Lost(int64(len(of)))
			t.Errorf("killed in attempt %d, the state is restored: %v, and the package file holds %q", i, restored, got)
		}
		if restored {
			done++
			w.confirm()
			w.putScript(after)
		}
		w.End(syscall.SIGTERM)
	}
	w.c.Lost(0)
	w.c.Figure("kills", "%d, of which %d came after the end", kills, done)
	w.restored(file, false)
	if got := w.script(); got != of {
		t.Errorf("after all, the package file holds %q", got)
	}
}

// killed begins a restore and kills it after so long, if it still runs.
func (w *world) killed(after time.Duration, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(loopback.Bin(w.t), "nodehitch-controller"),
		append([]string{"restore", "--config", w.ConfigFile()}, args...)...)
	w.must(cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // killed is what is wanted
	timer.Stop()
}
