package registry

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Options of a registry. Address is required.
type Options struct {
	// Address is where it listens, one of the lab's with a port: "192.168.0.20:443".
	Address string
	// TLS is its certificate; nil means HTTP.
	TLS *Pair
	// Users and their passwords; none means no login.
	Users map[string]string
	// Tokens is the token service that it sends clients to instead of asking for a login.
	Tokens *Tokens
}

// Registry is a registry as a process in a lab. It ends with the test; its data
// outlives Stop.
type Registry struct {
	// Dir holds its data, its configuration and its log.
	Dir string

	t       testing.TB
	lab     *lab.Lab
	o       Options
	process *exec.Cmd
	ended   chan struct{}
}

// Require skips the test if Debian's registry is not installed, with the reason, or fails
// it if NODEHITCH_LAB=required.
func Require(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(Binary); err != nil {
		refuse := t.Skipf
		if os.Getenv("NODEHITCH_LAB") == "required" {
			refuse = t.Fatalf
		}
		refuse("no %s: apt-get install docker-registry", Binary)
	}
}

// Open starts a registry in the lab.
func Open(t testing.TB, l *lab.Lab, o Options) *Registry {
	t.Helper()
	Require(t)
	r := New(t, l, o)
	r.Start()
	return r
}

// New is a registry that has not been started yet.
func New(t testing.TB, l *lab.Lab, o Options) *Registry {
	t.Helper()
	r := &Registry{Dir: t.TempDir(), t: t, lab: l, o: o}
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			log := r.Log()
			t.Logf("the registry at %s has logged:\n%s", o.Address, log[max(0, len(log)-3000):])
		}
	})
	return r
}

// Start starts it, also again after Stop, and returns when it answers.
func (r *Registry) Start() {
	r.t.Helper()
	env := map[string]string{
		"REGISTRY_LOG_LEVEL": "info", "REGISTRY_HTTP_ADDR": strconv.Quote(r.o.Address), // read as YAML
		"REGISTRY_HTTP_SECRET":                      "test",
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": filepath.Join(r.Dir, "data"),
	}
	config := r.write("config.yml", []byte("version: \"0.1\"\nstorage: {filesystem: {}, delete: {enabled: true}}\n"))
	if r.o.TLS != nil {
		env["REGISTRY_HTTP_TLS_CERTIFICATE"] = r.write("tls.crt", r.o.TLS.Certificate)
		env["REGISTRY_HTTP_TLS_KEY"] = r.write("tls.key", r.o.TLS.Key)
	}
	if len(r.o.Users) > 0 {
		env["REGISTRY_AUTH"], env["REGISTRY_AUTH_HTPASSWD_REALM"] = "htpasswd", "the test's registry"
		env["REGISTRY_AUTH_HTPASSWD_PATH"] = r.write("htpasswd", r.passwords())
	}
	if r.o.Tokens != nil {
		maps.Copy(env, r.o.Tokens.environment(r.write("tokens.crt", r.o.Tokens.pem)))
	}
	log, err := os.OpenFile(filepath.Join(r.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	r.process = r.lab.Command(context.Background(), Binary, "serve", config)
	for name, value := range env {
		r.process.Env = append(r.process.Env, name+"="+value)
	}
	r.process.Stdout, r.process.Stderr = log, log
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	process, ended := r.process, make(chan struct{})
	r.ended = ended
	go func() { _ = process.Wait(); close(ended) }()
	r.waitReady()
}

// Stop ends it at once.
func (r *Registry) Stop() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Signal(syscall.SIGKILL)
	<-r.ended
	r.process = nil
}

// Change gives it other options and restarts it. The data stays.
func (r *Registry) Change(change func(*Options)) {
	r.t.Helper()
	r.Stop()
	r.o.Users = maps.Clone(r.o.Users)
	change(&r.o)
	r.Start()
}

// Log is what it has logged, in all its lives.
func (r *Registry) Log() []byte {
	log, _ := os.ReadFile(filepath.Join(r.Dir, "log"))
	return log
}

func (r *Registry) waitReady() {
	r.t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return r.lab.Dial(ctx, network, r.o.Address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // whether it answers is all that is asked
	}}
	url := "http://registry/v2/"
	if r.o.TLS != nil {
		url = "https://registry/v2/"
	}
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !answers(r.t, &client, url) {
		select {
		case <-r.ended:
			r.t.Fatalf("the registry ended before it was ready:\n%s", r.Log())
		case <-deadline:
			r.t.Fatalf("the registry at %s is not ready:\n%s", r.o.Address, r.Log())
		case <-tick.C:
		}
	}
}

func answers(t testing.TB, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusUnauthorized
}

// passwords is a file of the form that htpasswd writes.
func (r *Registry) passwords() []byte {
	var lines []byte
	for user, password := range r.o.Users {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			r.t.Fatal(err)
		}
		lines = fmt.Appendf(lines, "%s:%s\n", user, hash)
	}
	return lines
}

func (r *Registry) write(name string, data []byte) string {
	r.t.Helper()
	name = filepath.Join(r.Dir, name)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return name
}
