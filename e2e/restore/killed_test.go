package restore

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/client"
)

const kills = 8

func (w *controller) putScript(content string) {
	w.t.Helper()
	w.must(client.Done(w.API.PutFileWithBody(w.t.Context(), instance, script, nil, "application/octet-stream", strings.NewReader(content))))
}

func (w *controller) script() string {
	w.t.Helper()
	content, err := w.content(instance)
	w.must(err)
	return content
}

// content is that of the instance's package file.
func (w *controller) content(instance string) (string, error) {
	resp, err := w.API.GetFile(w.t.Context(), instance, script, nil)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", client.ProblemOf(resp)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return string(content), err
}

func TestRestoreIsKilled(t *testing.T) {
	w := begin(t, "restore killed", "a restore that is killed at any moment has changed nothing or is done, and the next one succeeds")
	const of, after = "#!/bin/sh\n# of the backup\n", "#!/bin/sh\n# after it\n"
	w.putScript(of)
	file := w.backup()
	w.putScript(after)
	w.End(syscall.SIGTERM)
	begun := time.Now()
	if w.killed(time.Minute, "--replace", file) {
		t.Fatal("a restore took a minute")
	}
	whole, hit, done := time.Since(begun), 0, 0
	w.Start()
	w.confirm()
	w.putScript(after)
	w.End(syscall.SIGTERM)
	for i := range kills {
		if w.killed(whole*time.Duration(i+1)/kills, "--replace", file) {
			hit++
		}
		w.Start()
		restored, want := w.instance().Unconfirmed, after
		if restored {
			done, want = done+1, of
		}
		w.kept(fmt.Sprintf("killed in attempt %d, restored: %v, the package file", i, restored), w.script(), want)
		if restored {
			w.confirm()
			w.putScript(after)
		}
		w.End(syscall.SIGTERM)
	}
	if hit == 0 {
		t.Error("every restore ended before it was killed")
	}
	w.c.Figure("kills", "%d in %d attempts; after %d attempts the backup was restored", hit, kills, done)
	w.restored(file, false)
	w.kept("after all, the package file", w.script(), of)
}

// killed begins a restore, kills it after so long, and says whether it was in time. A
// restore that ends before that must have succeeded.
func (w *controller) killed(after time.Duration, args ...string) bool {
	w.t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(loopback.Bin(w.t), "nodehitch-controller"),
		append([]string{"restore", "--config", w.ConfigFile()}, args...)...)
	w.must(cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return true
	}
	w.must(err)
	return false
}
