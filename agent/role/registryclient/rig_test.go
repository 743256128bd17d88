package registryclient_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/registryclient"
	realcontainerd "github.com/nodehitch/nodehitch/e2e/containerd"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	plain  = "10.0.0.7:5000"
	plain2 = "10.0.0.8:5000"
	locked = "10.0.0.9:5000"

	daemonJSON = "/etc/docker/daemon.json"
	configTOML = "/etc/containerd/config.toml"
	dockerJSON = "/root/.docker/config.json"
	kubelet    = "/var/lib/kubelet/config.json"
	inventory  = "/var/lib/nodehitch/agent/inventory.json"

	connected = "True Connected"
)

// world is the registries that the machine reaches, all through one proxy, so that
// they may have any address. Each takes one password, or none.
type world struct {
	mu        sync.Mutex
	passwords map[string]string // by server; "" = open
	asked     map[string]int    // logins by server
	tunnels   []string          // asked for, by HTTPS
	proxy     string
}

func newWorld(t *testing.T) *world {
	w := &world{passwords: map[string]string{plain: "", plain2: "", locked: "right"}, asked: map[string]int{}}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	w.proxy = s.URL
	return w
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Method == http.MethodConnect {
		w.tunnels = append(w.tunnels, r.Host)
	}
	want, there := w.passwords[r.Host]
	if !there || r.Method == http.MethodConnect {
		http.Error(out, "no route to "+r.Host, http.StatusBadGateway)
		return
	}
	_, password, given := r.BasicAuth()
	if given {
		w.asked[r.Host]++
	}
	out.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if want != "" && password != want {
		out.Header().Set("Www-Authenticate", `Basic realm="x"`)
		out.WriteHeader(http.StatusUnauthorized)
		_, _ = out.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`))
	}
}

func (w *world) logins(server string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[server]
}

func (w *world) connects() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tunnels)
}

func (w *world) set(server, password string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passwords[server] = password
}

func (w *world) remove(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.passwords, server)
}

// rig is a machine, its registries, and the real engine over the real step.
type rig struct {
	t      *testing.T
	m      *hosttest.Machine
	world  *world
	doc    *api.NodeConfig
	store  *files.Store
	engine *converge.Engine
	now    time.Time
	log    bytes.Buffer
}

func machine(t *testing.T, parts ...hosttest.Part) *rig {
	r := &rig{t: t, m: hosttest.New(parts...), world: newWorld(t), store: files.New(t.TempDir(), slog.New(slog.DiscardHandler)), now: time.Now()}
	r.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleWorker, Proxy: &api.ProxySection{
		HTTP: r.world.proxy, HTTPS: r.world.proxy, NoProxy: "registry.example.com",
	}}
	r.restart()
	return r
}

// restart is a new process of the agent on the same machine.
func (r *rig) restart() { r.engine = converge.New(r.step()) }

func (r *rig) step() converge.Step {
	return registryclient.New(registryclient.Options{
		Host: r.m.Host(), Files: r.store, StateDirectory: "/var/lib/nodehitch/agent", Now: func() time.Time { return r.now },
		ProbeLimit: time.Minute, ReloadLimit: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
}

func docker(m *hosttest.Machine) {
	hosttest.Engine()(m)
	m.Units["docker.service"].Argv = []string{"/usr/sbin/dockerd", "-H", "fd://"}
}

// containerd is a real one of that version (major.minor), "" for the installed one, as far
// as its configuration is concerned.
func containerd(t *testing.T, version string) hosttest.Part {
	t.Helper()
	var program string
	if version != "" {
		program = realcontainerd.Program(t, version)
	} else if version, program = realcontainerd.Installed(); program == "" {
		t.Fatal("no containerd; `make deps` installs it")
	}
	return func(m *hosttest.Machine) {
		m.Containerd = version
		m.ContainerdConfig = func(path string, files map[string]hosttest.FileState) ([]byte, error) {
			return dump(t, program, path, files)
		}
		hosttest.Runs("containerd.service", "/usr/bin/containerd")(m)
	}
}

var dumps sync.Map // what each program has printed: a crash at every point asks thousands of times

// dump runs a program on a copy of the files of containerd's configuration.
func dump(t *testing.T, program, path string, files map[string]hosttest.FileState) ([]byte, error) {
	type result struct {
		out []byte
		err error
	}
	key := program + "\x00" + path
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if isConfig(name, path) {
			key += "\x00" + name + "\x00" + files[name].Content
		}
	}
	if known, ok := dumps.Load(key); ok {
		return known.(result).out, known.(result).err
	}
	root := t.TempDir()
	for name, f := range files {
		to := filepath.Join(root, name)
		if !isConfig(name, path) {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(strings.ReplaceAll(f.Content, imported, root+imported)), 0o600)); err != nil {
			return nil, err
		}
	}
	argv := []string{program, "--config", filepath.Join(root, path), "config", "dump"}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = "/"                                              // some find relative imports from here
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off") // it lives for some milliseconds, thousands of times
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = &host.CommandError{Argv: argv, Code: exit.ExitCode(), Output: strings.ReplaceAll(string(exit.Stderr), root, ""), Err: err}
	}
	out = bytes.ReplaceAll(out, []byte(root), nil)
	dumps.Store(key, result{out, err})
	return out, err
}

// imported is what the tests import.
const imported = "/etc/containerd/conf.d/"

func isConfig(name, path string) bool {
	return name == path || strings.HasSuffix(name, ".toml") && !strings.HasSuffix(name, "/hosts.toml")
}

func file(path, content string) hosttest.Part { return hosttest.WithFile(path, content, 0o644) }

// connect is the document with these registries.
func (r *rig) connect(registries ...api.RegistryConnection) *rig {
	r.doc.Registries = append([]api.RegistryConnection{}, registries...)
	return r
}

func open(server string) api.RegistryConnection {
	return api.RegistryConnection{Server: server, Scheme: api.RegistryHTTP}
}

func login(server, username, password string) api.RegistryConnection {
	return api.RegistryConnection{Server: server, Scheme: api.RegistryHTTP, Username: username, Password: password}
}

// give puts a file into the store, as if it had been fetched.
func (r *rig) give(content []byte) *api.FileReference {
	r.t.Helper()
	sum := sha256.Sum256(content)
	ref := &api.FileReference{Sha256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(content))}
	if err := os.MkdirAll(r.store.Directory, 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.store.Directory, ref.Sha256), content, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return ref
}

// onlyAtTheController takes a file out of the store, which can fetch it again.
func (r *rig) onlyAtTheController(ref *api.FileReference) {
	r.t.Helper()
	path := filepath.Join(r.store.Directory, ref.Sha256)
	content, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		r.t.Fatal(err)
	}
	root := testca.Root(r.t, "controller")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(content))
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{root.Server(r.t, time.Now().Add(time.Hour), "127.0.0.1")}}
	s.StartTLS()
	r.t.Cleanup(s.Close)
	l, err := link.New(link.Options{URLs: []string{s.URL}, RootPEM: root.PEM(), Pin: client.Pin(root.Cert)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(l.Close)
	r.store.Use(l)
}

func (r *rig) converge() converge.Report {
	return r.engine.Converge(r.t.Context(), r.doc, converge.Options{})
}

// expect converges and wants the condition to begin so, and to have these words.
func (r *rig) expect(condition string, words ...string) converge.Report {
	r.t.Helper()
	report := r.converge()
	c := report.Condition(api.ConditionRegistriesConnected)
	if c == nil {
		r.t.Fatalf("no condition: %+v", report)
	}
	if got := string(c.Status) + " " + c.Reason; got != condition {
		r.t.Errorf("%s, want %s: %s\ntrace: %s", got, condition, c.Message, strings.Join(r.m.Trace, "\n       "))
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			r.t.Errorf("the message has no %q: %s", word, c.Message)
		}
	}
	r.noPassword(report)
	if left := r.file(inventory); condition == "True Removed" && (strings.Contains(left, "server") || strings.Contains(left, "insecure")) {
		r.t.Errorf("the inventory still has %s", left)
	}
	return report
}

// noPassword wants the password to be nowhere but in the files of logins.
func (r *rig) noPassword(report converge.Report) {
	r.t.Helper()
	var said strings.Builder
	for _, c := range report.Conditions {
		said.WriteString(c.Message)
	}
	for _, result := range report.Results {
		for _, a := range result.Planned {
			said.WriteString(a.Summary)
		}
	}
	said.WriteString(r.log.String() + r.file(inventory))
	for _, c := range r.doc.Registries {
		if c.Password != "" && strings.Contains(said.String(), c.Password) {
			r.t.Errorf("the password is in what is said: %s", said.String())
		}
	}
}

// idle converges once more and wants nothing to be done.
func (r *rig) idle() {
	r.t.Helper()
	before := r.m.Changes()
	report := r.converge()
	if since := r.m.Changes().Since(before); report.Changed || !since.None() {
		r.t.Errorf("a converged machine was changed: %s\n%+v", since, report.Results)
	}
}

func (r *rig) file(path string) string { return r.m.Files[path].Content }

// did counts the lines of the trace that begin so.
func (r *rig) did(prefix string) int {
	n := 0
	for _, line := range r.m.Trace {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// snapshot is every file but the agent's own state. JSON is decoded, because the order in
// which registries came does not matter.
func (r *rig) snapshot() map[string]string {
	all := map[string]string{}
	for path, f := range r.m.Files {
		var object map[string]any
		switch {
		case path == inventory:
		case json.Unmarshal([]byte(f.Content), &object) == nil:
			all[path] = fmt.Sprint(object)
		default:
			all[path] = f.Content
		}
	}
	return all
}
