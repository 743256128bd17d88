// Package registrytest starts real registries for tests: Debian's docker-registry on a
// loopback address, with certificates of a CA made for the test, and a token service
// as the Distribution project specifies it. Each ends with its test.
package registrytest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Options say how a registry listens and which logins it accepts.
type Options struct {
	// Address to listen on, "127.0.0.1:0" by default.
	Address string
	// Certificate makes it HTTPS; then clients need a certificate of ClientCA, if it is set.
	Certificate, ClientCA *Certificate
	// Username and Password of the only login, checked with htpasswd or by Tokens.
	Username, Password string
	Tokens             *TokenService
}

// Start starts a registry and returns its host:port.
func Start(t testing.TB, o Options) string {
	t.Helper()
	program := need(t, "docker-registry")
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	write(t, config, o.config(t, dir))
	cmd := exec.Command(program, "serve", config) //nolint:noctx // it ends with the test, by the clean-up
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	logged, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		listening <- follow(logged, listening)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	select {
	case said := <-listening:
		if !strings.Contains(said, ":") || strings.Contains(said, "\n") {
			t.Fatalf("docker-registry does not listen:\n%s", said)
		}
		return said
	case <-time.After(time.Minute):
		t.Fatal("docker-registry did not say within a minute where it listens")
	}
	return ""
}

var listensOn = regexp.MustCompile(`listening on ([0-9a-f.:\[\]]+\d)`)

// follow reads the log to its end, and sends where the registry listens.
func follow(log io.Reader, listening chan<- string) string {
	var all strings.Builder
	found := false
	for s := bufio.NewScanner(log); s.Scan(); {
		if m := listensOn.FindStringSubmatch(s.Text()); m != nil && !found {
			found = true
			listening <- m[1]
		}
		if !found {
			fmt.Fprintln(&all, s.Text())
		}
	}
	if found {
		return ""
	}
	return all.String() + "\n"
}

func (o Options) config(t testing.TB, dir string) string {
	address := o.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	lines := []string{
		"version: 0.1", "log: {level: info}",
		"storage: {filesystem: {rootdirectory: " + filepath.Join(dir, "data") + "}}",
		"http:", "  addr: '" + address + "'", "  secret: test",
	}
	if o.Certificate != nil {
		certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		write(t, certificate, string(o.Certificate.PEM))
		write(t, key, string(o.Certificate.Key))
		lines = append(lines, "  tls:", "    certificate: "+certificate, "    key: "+key)
		if o.ClientCA != nil {
			clients := filepath.Join(dir, "clients.crt")
			write(t, clients, string(o.ClientCA.PEM))
			lines = append(lines, "    clientcas: ["+clients+"]")
		}
	}
	switch {
	case o.Tokens != nil:
		bundle := filepath.Join(dir, "tokens.crt")
		write(t, bundle, string(o.Tokens.signer.PEM))
		lines = append(lines, "auth:", "  token:", "    realm: "+o.Tokens.URL+"/token",
			"    service: "+service, "    issuer: "+issuer, "    rootcertbundle: "+bundle)
	case o.Username != "":
		passwords := filepath.Join(dir, "htpasswd")
		write(t, passwords, htpasswd(t, o.Username, o.Password))
		lines = append(lines, "auth:", "  htpasswd: {realm: test, path: "+passwords+"}")
	}
	return strings.Join(lines, "\n") + "\n"
}

// htpasswd is the line of a user.
func htpasswd(t testing.TB, username, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return username + ":" + string(hash) + "\n"
}

func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%v; `make deps` installs it", err)
	}
	return path
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
