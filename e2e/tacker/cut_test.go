package tacker

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// A controller that is killed while it answers has not answered: the client asks again.
func TestAnAnswerThatIsCut(t *testing.T) {
	root := testca.Root(t, "root")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{root.Intermediate(t).Server(t, time.Now().Add(time.Hour), "127.0.0.1")}})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body := `{"pin":"whole"}`
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		if calls.Add(1) == 1 {
			_, _ = w.Write([]byte(body[:8]))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte(body))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	pem := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(pem, root.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	const program = `import sys, time
from nodehitch import client
c = client.Client([sys.argv[1]], open(sys.argv[2]).read(), sys.argv[3], "token")
print(client.patiently(time.monotonic() + 30, c.trust)["pin"])`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program, "https://"+listener.Addr().String(), pem, client.Pin(root.Cert))
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../packaging/tacker")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "whole" || calls.Load() != 2 {
		t.Errorf("%v after %d calls: %s", err, calls.Load(), out)
	}
}
