package cloudinit_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// scene is a VM that has user_data, and a controller.
type scene struct {
	server   *httptest.Server
	requests atomic.Int32
	params   cloudinit.Params
	// alter changes the configuration on the VM to one that Render does not write.
	alter func(map[string]any)
	dir   string
}

func newScene(t *testing.T, handler http.HandlerFunc, names ...string) *scene {
	t.Helper()
	root := testca.Root(t, "root")
	s := &scene{dir: t.TempDir()}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	if len(names) == 0 {
		names = []string{"127.0.0.1"}
	}
	s.server.TLS = &tls.Config{Certificates: []tls.Certificate{
		root.Intermediate(t).Server(t, time.Now().Add(time.Hour), names...)}}
	s.server.Config.ErrorLog = testca.Quiet
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	s.params = golden(t)
	s.params.ControllerURLs = []string{s.server.URL}
	s.params.RootPEM, s.params.Pin = root.PEM(), client.Pin(root.Cert)
	return s
}

func (s *scene) agent() string { return filepath.Join(s.dir, "bin", "nodehitch-agent") }

// packaged is where the agent of a package would be.
func (s *scene) packaged() string { return filepath.Join(s.dir, "packaged", "nodehitch-agent") }

// boot runs the script of the rendered user_data with its configuration.
func (s *scene) boot(t *testing.T, environment ...string) (string, error) {
	t.Helper()
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("the unit runs /usr/bin/python3, which is not on this machine")
	}
	files := read(t, render(t, s.params))
	config := files["/etc/nodehitch/agent.yaml"]
	if s.alter != nil {
		var values map[string]any
		if err := json.Unmarshal([]byte(config), &values); err != nil {
			t.Fatal(err)
		}
		s.alter(values)
		altered, _ := json.Marshal(values)
		config = string(altered)
	}
	script, configuration := filepath.Join(s.dir, "bootstrap.py"), filepath.Join(s.dir, "agent.yaml")
	write(t, script, files["/var/lib/nodehitch/bootstrap.py"])
	write(t, configuration, config)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-I", script, configuration, s.agent(), s.packaged())
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// leftovers are the files of the agent's directory.
func (s *scene) leftovers(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.agent()))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func giveAgent(t *testing.T) http.HandlerFunc {
	path := self(t)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/agent/"+machine() {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, path)
	}
}

// machine is what `uname -m` says here.
func machine() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}
