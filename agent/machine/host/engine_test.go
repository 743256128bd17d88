package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNamesOfALoad(t *testing.T) {
	const names = `{"stream":"Loaded image: registry:latest\n"}` + "\n" + `{"stream":"Loaded image ID: sha256:4a0d\nLoaded image: example.com:5000/a/b:1\n"}`
	got, err := loaded(strings.NewReader(`{"status":"Loading layer","progressDetail":{"current":1},"id":"x"}` + "\n" + names))
	if err != nil || !slices.Equal(got, []string{"registry:latest", "sha256:4a0d", "example.com:5000/a/b:1"}) {
		t.Errorf("got %q, %v", got, err)
	}
	for name, said := range map[string]string{
		"an error": names + `{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}`,
		"cut off":  names + `{"stream":"Loa`,
		"no JSON":  "<html>",
	} {
		if got, err := loaded(strings.NewReader(said)); err == nil {
			t.Errorf("%s: got %q and no error", name, got)
		}
	}
}

// What an engine does is tested on a real one, in e2e.
func TestEngineThatDoesNotAnswer(t *testing.T) {
	silent := filepath.Join(t.TempDir(), "silent.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, socket := range []string{filepath.Join(t.TempDir(), "none.sock"), silent} {
		d := newDocker(socket, &Changes{})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := d.Version(ctx)
		cancel()
		var down *EngineDownError
		if !errors.As(err, &down) || !strings.Contains(err.Error(), socket) {
			t.Errorf("got %v, want an *EngineDownError that names %s", err, socket)
		}
	}
}

func TestListenersAreNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	p := &ports{proc: "/proc"}
	found, err := p.Listeners(port)
	if err != nil || len(found) != 1 || found[0].PID != os.Getpid() || found[0].Program == "" {
		t.Errorf("got %v, %v; want this process", found, err)
	}
	answer, err := p.Get(t.Context(), port, "/v2/")
	if err != nil || answer.Status != http.StatusFound || answer.Header.Get("Location") != "/elsewhere" {
		t.Errorf("got %+v, %v; want the answer itself, not where it leads", answer, err)
	}
	server.Close()
	if found, err := p.Listeners(port); err != nil || len(found) != 0 {
		t.Errorf("the port is free, and got %v, %v", found, err)
	}
}

func TestDirectoryIsMadeOnce(t *testing.T) {
	changes := &Changes{}
	d := &directories{changes: changes, unguardable: map[string]bool{}}
	path := filepath.Join(t.TempDir(), "home", "registry")
	for range 2 {
		if err := d.Make(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 || changes.Count().Directories != 1 {
		t.Errorf("%v, %v, %s", info.Mode(), err, changes.Count())
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Make(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of a directory that was there is %v now, %v", info.Mode(), err)
	}
	file := filepath.Join(filepath.Dir(path), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Make(file, 0o700); err == nil {
		t.Error("a file passes for a directory")
	}
}
