package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// servers are controllers below one root, one for each handler.
func servers(t *testing.T, handlers ...http.HandlerFunc) (link.Options, []*httptest.Server) {
	t.Helper()
	root := testca.Root(t, "root")
	o := link.Options{RootPEM: root.PEM(), Pin: client.Pin(root.Cert)}
	var all []*httptest.Server
	for _, h := range handlers {
		s := httptest.NewUnstartedServer(h)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{root.Intermediate(t).Server(t, time.Now().Add(time.Hour), "127.0.0.1")}}
		s.Config.ErrorLog = testca.Quiet
		s.StartTLS()
		t.Cleanup(s.Close)
		o.URLs = append(o.URLs, s.URL)
		all = append(all, s)
	}
	return o, all
}

func probe(ctx context.Context, c *client.Controller) error { return client.Done(c.GetHealthz(ctx)) }

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func otherServer(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "nginx", http.StatusBadGateway)
}

func open(t *testing.T, o link.Options) *link.Link {
	t.Helper()
	l, err := link.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestURLsAreTriedInOrderAndTheGoodOneIsKept(t *testing.T) {
	calls := 0
	o, _ := servers(t, otherServer, func(w http.ResponseWriter, r *http.Request) { calls++; ok(w, r) })
	o.URLs = append([]string{"https://127.0.0.1:1"}, o.URLs...)
	l := open(t, o)
	for range 2 {
		if err := l.Short(t.Context(), probe); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 || l.URL() != o.URLs[2] {
		t.Errorf("%d calls, at %s", calls, l.URL())
	}
}

func TestAnAnswerOfTheControllerEndsTheSearch(t *testing.T) {
	second := 0
	o, _ := servers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"type":"urn:nodehitch:problem:revoked","title":"revoked","status":403,"actions":[{"call":"reenrollNode","id":"4a0d"},{"call":"pray"}]}`)
	}, func(http.ResponseWriter, *http.Request) { second++ })
	err := open(t, o).Short(t.Context(), probe)
	if link.Classify(err) != link.Refused || second != 0 {
		t.Errorf("%v, and %d calls of the second", err, second)
	}
	if !strings.HasSuffix(err.Error(), "(`hitchctl node reenroll 4a0d`)") {
		t.Errorf("it does not say what to type: %v", err)
	}
}

func TestAllFailuresAreSaid(t *testing.T) {
	o, all := servers(t, otherServer, ok)
	all[1].Close()
	err := open(t, o).Short(t.Context(), probe)
	if err == nil || !strings.Contains(err.Error(), o.URLs[0]) || !strings.Contains(err.Error(), o.URLs[1]) || link.Classify(err) != link.Transient {
		t.Errorf("got %v", err)
	}
}

func TestCancelledCallGoesNowhereElse(t *testing.T) {
	second := 0
	hung := make(chan struct{})
	o, _ := servers(t, func(_ http.ResponseWriter, r *http.Request) { close(hung); <-r.Context().Done() },
		func(http.ResponseWriter, *http.Request) { second++ })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-hung; cancel() }()
	if err := open(t, o).Short(ctx, probe); !errors.Is(err, context.Canceled) || second != 0 {
		t.Errorf("%v, and %d calls of the second", err, second)
	}
}

func TestTroubles(t *testing.T) {
	for _, c := range []struct {
		err  error
		want link.Failure
	}{
		{&client.Unreachable{Where: "x", Err: errors.New("refused")}, link.Transient},
		{&client.UnexpectedAnswer{Status: 403}, link.Transient},
		{errors.New("no identity"), link.Transient},
		{api.NewProblem(api.ProblemServerNotExpected, ""), link.NotYetExpected},
		{api.NewProblem(api.ProblemIdentityLive, ""), link.IdentityLive},
		{api.NewProblem(api.ProblemNotAttested, ""), link.NotAttested},
		{api.NewProblem(api.ProblemNonceRequired, ""), link.Transient},
		{api.NewProblem(api.ProblemCloudError, ""), link.Transient},
		{api.NewProblem(api.ProblemUnauthorized, ""), link.Refused},
		{api.NewProblem(api.ProblemRevoked, ""), link.Refused},
		{api.NewProblem(api.ProblemInvalid, ""), link.Refused},
		{api.NewProblem(api.ProblemTooMany, ""), link.Transient},
		{api.NewProblem(api.ProblemUnavailable, ""), link.Transient},
		{fmt.Errorf("enrolling: %w", api.NewProblem(api.ProblemServerNotExpected, "")), link.NotYetExpected},
	} {
		if got := link.Classify(c.err); got != c.want {
			t.Errorf("%v is trouble %d, want %d", c.err, got, c.want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	o, _ := servers(t, ok)
	none := o
	none.URLs = nil
	plain := o
	plain.URLs = []string{"http://127.0.0.1:1"}
	other := o
	other.Pin = "sha256:" + strings.Repeat("0", 64)
	for name, o := range map[string]link.Options{"no URL": none, "no TLS": plain, "another pin": other} {
		if _, err := link.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
