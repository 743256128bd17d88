package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/engine"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/registry"
)

// An engine loads the image, runs it, and pushes into it.
func TestServerImageIsARegistry(t *testing.T) {
	registry.Require(t)
	e := engine.Open(t)
	image, err := registry.Server(0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "registry.tar")
	if err := image.WriteFile(file); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"load", "--input", file},
		{"run", "--detach", "--name", "private_registry", "--restart", "always", "--publish", "5000:5000", "registry"},
	} {
		if out, err := e.Docker(args...); err != nil {
			t.Fatal(out, err)
		}
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return e.Lab.Dial(ctx, network, lab.Gateway.String()+":5000")
	}}}
	got, deadline := "", time.After(time.Minute)
	for tick := time.NewTicker(50 * time.Millisecond); got != "{}"; {
		select {
		case <-deadline:
			t.Fatalf("GET /v2/ says %q", got)
		case <-tick.C:
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(request); err == nil {
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			got = string(body)
		}
	}
	for _, args := range [][]string{{"tag", "registry", "127.0.0.1:5000/a:b"}, {"push", "127.0.0.1:5000/a:b"}} {
		if out, err := e.Docker(args...); err != nil {
			t.Fatal(out, err)
		}
	}
}

// The same image is the same bytes, so that its digest can be expected.
func TestImageIsReproducible(t *testing.T) {
	var a, b, other bytes.Buffer
	for w, seed := range map[*bytes.Buffer]uint64{&a: 1, &b: 1, &other: 2} {
		if err := registry.Small("small:1", 4096, seed).Write(w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) || bytes.Equal(a.Bytes(), other.Bytes()) {
		t.Error("images with the same seed differ, or those with another do not")
	}
}

// A registry with TLS and a login answers those who trust it and have one.
func TestRegistryAsksForALogin(t *testing.T) {
	registry.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	ca := registry.NewAuthority(t, "test", time.Now().Add(time.Hour))
	pair := ca.Issue(t, time.Now().Add(time.Hour), lab.Gateway.String())
	address := lab.Gateway.String() + ":443"
	r := registry.Open(t, l, registry.Options{Address: address, TLS: &pair, Users: map[string]string{"user01": "pä:ss"}})
	curl := func(args ...string) string {
		cmd := l.Command(t.Context(), append([]string{"curl", "-s", "--cacert", "/dev/stdin", "https://" + address + "/v2/"}, args...)...)
		cmd.Stdin = bytes.NewReader(ca.PEM)
		out, _ := cmd.Output()
		return strings.TrimSpace(string(out))
	}
	if got := curl("-u", "user01:pä:ss"); got != "{}" {
		t.Errorf("with the login it says %q", got)
	}
	if got := curl(); !strings.Contains(got, "UNAUTHORIZED") {
		t.Errorf("without a login it says %q", got)
	}
	r.Change(func(o *registry.Options) { o.Users["user01"] = "other" })
	if got := curl("-u", "user01:pä:ss"); !strings.Contains(got, "UNAUTHORIZED") {
		t.Errorf("with the old login it says %q", got)
	}
}

// Docker gets a token for what it pushes, and none with a wrong password.
func TestTokens(t *testing.T) {
	registry.Require(t)
	e := engine.Open(t)
	ca := registry.NewAuthority(t, "test", time.Now().Add(time.Hour))
	host := lab.Gateway.String()
	pair := ca.Issue(t, time.Now().Add(time.Hour), host)
	tokens := registry.OpenTokens(t, e.Lab, host+":5443", host, pair, map[string]string{"user01": "right"})
	registry.Open(t, e.Lab, registry.Options{Address: host + ":443", TLS: &pair, Tokens: tokens})
	trusted := filepath.Join(e.Dir, "etc", "certs.d", host+":443")
	if err := os.MkdirAll(trusted, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(e.Dir, "small.tar")
	if err := errors.Join(
		os.WriteFile(filepath.Join(trusted, "ca.crt"), ca.PEM, 0o600),
		registry.Small(host+":443/a/b:c", 4096, 1).WriteFile(file),
	); err != nil {
		t.Fatal(err)
	}
	if out, err := e.Docker("login", "--username", "user01", "--password", "wrong", host+":443"); err == nil || !strings.Contains(err.Error(), "incorrect username or password") {
		t.Errorf("with a wrong password: %s, %v", out, err)
	}
	for _, args := range [][]string{
		{"login", "--username", "user01", "--password", "right", host + ":443"},
		{"load", "--input", file}, {"push", host + ":443/a/b:c"},
	} {
		if out, err := e.Docker(args...); err != nil {
			t.Fatal(out, err)
		}
	}
}
