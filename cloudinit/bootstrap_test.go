package cloudinit_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// The agent that the test server gives out is this test's own binary: a real
// program for this machine, which says so when it is asked to install itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "install" {
		fmt.Println("installing from", os.Args[0])
		return
	}
	os.Exit(m.Run())
}

func TestInstallsTheAgent(t *testing.T) {
	s := newScene(t, giveAgent(t))
	// What an environment could do to a Python program or to TLS must not matter.
	out, err := s.boot(t, "https_proxy=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "ALL_PROXY=http://127.0.0.1:1",
		"SSL_CERT_FILE=/nonexistent", "PYTHONPATH=/nonexistent")
	if err != nil || !strings.Contains(out, "installing from "+s.agent()) {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(s.agent())
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, mode %v; want 0755", err, info.Mode())
	}
	if left := s.leftovers(t); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// An image with the package needs no controller before the agent does.
func TestThePackagedAgentIsPreferred(t *testing.T) {
	s := newScene(t, giveAgent(t))
	link(t, self(t), s.packaged())
	out, err := s.boot(t)
	if err != nil || !strings.Contains(out, "installing from "+s.packaged()) {
		t.Errorf("%v: %s", err, out)
	}
	if n, left := s.requests.Load(), s.leftovers(t); n != 0 || len(left) != 0 {
		t.Errorf("%d requests were sent, left behind: %v", n, left)
	}
}

// A package that is not completely there does not keep the machine from becoming a node.
func TestAPackagedAgentThatCannotRunIsNotUsed(t *testing.T) {
	s := newScene(t, giveAgent(t))
	write(t, s.packaged(), "not executable")
	if out, err := s.boot(t); err != nil || !strings.Contains(out, "installing from "+s.agent()) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheNextControllerIsTried(t *testing.T) {
	s := newScene(t, giveAgent(t))
	s.params.ControllerURLs = []string{"https://127.0.0.1:1", s.server.URL}
	out, err := s.boot(t)
	if err != nil || !strings.Contains(out, "https://127.0.0.1:1: ") || !strings.Contains(out, "installing") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOnlyThePinnedControllerIsTrusted(t *testing.T) {
	tests := map[string]struct {
		scene func(*testing.T) (*scene, []string)
		want  string
	}{
		"a chain to another root, which the system trusts": {func(t *testing.T) (*scene, []string) {
			s := newScene(t, giveAgent(t))
			system := filepath.Join(s.dir, "system.pem")
			write(t, system, string(s.params.RootPEM))
			otherRoot := testca.Root(t, "root")
			s.params.RootPEM, s.params.Pin = otherRoot.PEM(), client.Pin(otherRoot.Cert)
			return s, []string{"SSL_CERT_FILE=" + system}
		}, "CERTIFICATE_VERIFY_FAILED"},
		"a certificate for another name": {func(t *testing.T) (*scene, []string) {
			return newScene(t, giveAgent(t), "controller.example"), nil
		}, "CERTIFICATE_VERIFY_FAILED"},
		"TLS 1.2": {func(t *testing.T) (*scene, []string) {
			s := newScene(t, giveAgent(t))
			s.server.TLS.MaxVersion = tls.VersionTLS12
			return s, nil
		}, "PROTOCOL_VERSION"},
		"a URL without TLS": {func(t *testing.T) (*scene, []string) {
			s := newScene(t, giveAgent(t))
			s.alter = func(c map[string]any) {
				c["controllerUrls"] = []string{strings.Replace(s.server.URL, "https", "http", 1)}
			}
			return s, nil
		}, "expected https://"},
		"another root behind the pinned one":       behindThePinned("", "\n"),
		"another root right behind the pinned one": behindThePinned("", ""),
		"another root before the pinned one":       behindThePinned("another first", "\n"),
		"another root in other words":              behindThePinned("TRUSTED ", "\n"),
		"a root that is not the pinned one": {func(t *testing.T) (*scene, []string) {
			s := newScene(t, giveAgent(t))
			s.alter = func(c map[string]any) { c["pin"] = "sha256:" + strings.Repeat("0", 64) }
			return s, nil
		}, "but the pin is sha256:0000"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, environment := test.scene(t)
			out, err := s.boot(t, environment...)
			if err == nil || !strings.Contains(strings.ToUpper(out), strings.ToUpper(test.want)) {
				t.Errorf("%v, want %q: %s", err, test.want, out)
			}
			if n := s.requests.Load(); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
			if left := s.leftovers(t); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// behindThePinned is a configuration with two roots: the pin names one, and the server has the
// other one.
func behindThePinned(how, between string) struct {
	scene func(*testing.T) (*scene, []string)
	want  string
} {
	return struct {
		scene func(*testing.T) (*scene, []string)
		want  string
	}{func(t *testing.T) (*scene, []string) {
		s := newScene(t, giveAgent(t))
		pinned := testca.Root(t, "root")
		for len(pinned.Cert.Raw)%3 == 0 { // a lenient decoder of base64 ends at the padding of the first one
			pinned = testca.Root(t, "root")
		}
		first, second := string(pinned.PEM()), string(s.params.RootPEM)
		switch how {
		case "another first":
			first, second = second, first
		default:
			second = strings.ReplaceAll(second, " CERTIFICATE", " "+how+"CERTIFICATE")
		}
		s.alter = func(c map[string]any) {
			c["rootCertificate"], c["pin"] = strings.TrimSpace(first)+between+second, client.Pin(pinned.Cert)
		}
		return s, nil
	}, "the root certificate is "}
}

func TestAnswersThatAreNotAnAgent(t *testing.T) {
	foreign := append([]byte("\x7fELF"), make([]byte, 60)...)
	foreign[18] = 8 // MIPS
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			text, _ := os.ReadFile(self(t))
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text[:len(text)/2])
		}, "the connection was cut after"},
		"no agent for this architecture": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"title":"no such object","detail":"no agent for riscv64"}`))
		}, "404 Not Found: b'{\"title\":\"no such object\""},
		"of another architecture": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(foreign) }, "no ELF program for " + machine()},
		"a page":                  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>please log in</html>")) }, "it begins b'<html>"},
		"nothing":                 {func(http.ResponseWriter, *http.Request) {}, "Content-Length is '0'"},
		"without length": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(foreign)
		}, "Content-Length is ''"},
		"larger than any agent": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999999") }, "Content-Length is '9999"},
		"a redirect":            {http.RedirectHandler("https://127.0.0.1:1/", http.StatusFound).ServeHTTP, "302 Found"},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = conn.Write([]byte("220 mail ESMTP\r\n"))
			_ = conn.Close()
		}, "220 mail ESMTP"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.handler)
			write(t, s.agent(), "the agent before")
			out, err := s.boot(t)
			if err == nil || !strings.Contains(out, test.want) || !strings.Contains(out, s.server.URL) || strings.Contains(out, "Traceback") {
				t.Errorf("%v, want %q: %s", err, test.want, out)
			}
			if text, _ := os.ReadFile(s.agent()); string(text) != "the agent before" {
				t.Error("the installed agent has changed")
			}
			if left := s.leftovers(t); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// A power cut during an attempt left a partial file; nothing is written through it.
func TestPartOfAnEarlierAttempt(t *testing.T) {
	s := newScene(t, giveAgent(t))
	victim := filepath.Join(s.dir, "victim")
	write(t, victim, "untouched")
	write(t, s.agent(), "the agent before")
	if err := os.Symlink(victim, filepath.Join(filepath.Dir(s.agent()), ".nodehitch-agent.part")); err != nil {
		t.Fatal(err)
	}
	if out, err := s.boot(t); err != nil || !strings.Contains(out, "installing") {
		t.Fatalf("%v: %s", err, out)
	}
	if text, _ := os.ReadFile(victim); string(text) != "untouched" {
		t.Error("wrote through the symlink")
	}
	if left := s.leftovers(t); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
