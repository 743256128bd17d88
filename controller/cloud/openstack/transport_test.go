package openstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
)

func TestFaultsThatPassAreMetWithFurtherAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		fault openstacktest.Fault
		calls int
		says  string // "" if it succeeds
	}{
		"503 twice":                       {openstacktest.Fault{Status: 503, Times: 2}, 3, ""},
		"429, and how long":               {openstacktest.Fault{Status: 429, RetryAfter: "0", Times: 1}, 2, ""},
		"bad gateway, in HTML":            {openstacktest.Fault{Status: 502, Body: "<html>", Times: 1}, 2, ""},
		"gateway time-out":                {openstacktest.Fault{Status: 504, Times: 1}, 2, ""},
		"a connection that breaks":        {openstacktest.Fault{Drop: true, Times: 2}, 3, ""},
		"503 for ever":                    {openstacktest.Fault{Status: 503}, maxAttempts, "answered 503 (Service Unavailable)"},
		"broken for ever":                 {openstacktest.Fault{Drop: true}, maxAttempts, "the connection broke"},
		"429 for longer than we have":     {openstacktest.Fault{Status: 429, RetryAfter: "600"}, 1, "too many requests"},
		"an error of the service":         {openstacktest.Fault{Status: 500}, 1, "answered 500"},
		"not this service":                {openstacktest.Fault{Status: 200, Body: "<html>"}, 1, "check the endpoint"},
		"another kind of answer":          {openstacktest.Fault{Status: 200, Body: `{"servers":{"id":7}}`}, 1, "check the endpoint"},
		"an empty page with a next one":   {openstacktest.Fault{Status: 200, Body: `{"servers":[],"servers_links":[{"rel":"next","href":"?marker=x"}]}`}, 1, ""},
		"a next page of no address":       {openstacktest.Fault{Status: 200, Body: `{"servers":[{"id":"x"}],"servers_links":[{"rel":"next","href":"%zz"}]}`}, 1, "check the endpoint"},
		"a list whose links are none":     {openstacktest.Fault{Status: 200, Body: `{"servers":[],"servers_links":7}`}, 1, "check the endpoint"},
		"400 with a secret in its answer": {openstacktest.Fault{Status: 400, Body: `{"badRequest":{"message":"` + openstacktest.Password + `"}}`}, 1, "refused the call with 400"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := openstacktest.Start(t)
			var seen []int
			cloud := connect(t, fake, func(o *Options) {
				o.Observe = func(service, call string, status int) {
					if service == "compute" && call == "GET /servers/detail" {
						seen = append(seen, status)
					}
				}
			})
			cloud.transport.base.DisableKeepAlives = true // net/http itself tries again on a connection that it had before
			fake.Fail(openstacktest.Servers, c.fault)
			_, err := cloud.Servers(t.Context())
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("err %v, want %q", err, c.says)
			}
			if n := fake.Calls()[openstacktest.Servers]; n != c.calls || len(seen) != c.calls {
				t.Errorf("%d calls, %v observed; want %d", n, seen, c.calls)
			}
			passes := c.fault.Status >= 429 || c.fault.Drop
			if err != nil && IsUnavailable(err) != passes {
				t.Errorf("unavailable: %v", IsUnavailable(err))
			}
			if err != nil && strings.Contains(err.Error(), openstacktest.Password) {
				t.Errorf("the error contains what the cloud answered: %v", err)
			}
		})
	}
}

// A further attempt sends what the first one sent.
func TestWhatIsSentIsSentAgain(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(openstacktest.Server{ID: serverID})
	fake.Fail(openstacktest.Login, openstacktest.Fault{Status: 503, Times: 1})
	fake.Fail(openstacktest.SetMetadata, openstacktest.Fault{Status: 503, Times: 2})
	if err := connect(t, fake).SetMetadata(t.Context(), serverID, "ours", "1"); err != nil || fake.Metadata(serverID)["ours"] != "1" {
		t.Errorf("metadata %v, err %v", fake.Metadata(serverID), err)
	}
	wantCalls(t, fake, map[string]int{openstacktest.Login: 2, openstacktest.SetMetadata: 3})
}

func TestACallHasItsTime(t *testing.T) {
	fake := openstacktest.Start(t)
	cloud := connect(t, fake)
	if _, err := cloud.Servers(t.Context()); err != nil {
		t.Fatal(err)
	}
	cloud.transport.timeout = 500 * time.Millisecond
	fake.Fail(openstacktest.Servers, openstacktest.Fault{Delay: time.Hour, Times: 1})
	if _, err := cloud.Servers(t.Context()); err != nil {
		t.Errorf("slow once: %v", err)
	}
	fake.Fail(openstacktest.Servers, openstacktest.Fault{Delay: time.Hour})
	_, err := cloud.Servers(t.Context())
	if !IsUnavailable(err) || !strings.Contains(err.Error(), "no answer within 500ms") {
		t.Errorf("slow for ever: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cloud.Servers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("no caller waits any more: %v", err)
	}
}

// The login that one caller began is good for the others, also when that caller goes away.
func TestALoginOutlivesWhoBeganIt(t *testing.T) {
	fake := openstacktest.Start(t)
	cloud := connect(t, fake)
	if _, err := cloud.Servers(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.ExpireTokens()
	ctx, leave := context.WithCancel(t.Context())
	cloud.transport.observe = func(_, _ string, status int) {
		if status == http.StatusUnauthorized {
			leave()
		}
	}
	if _, err := cloud.Servers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err %v, want that of the context", err)
	}
	fake.Forget()
	if _, err := cloud.Servers(t.Context()); err != nil {
		t.Error(err)
	}
	wantCalls(t, fake, map[string]int{openstacktest.Servers: 1})
}

// endpoint is a Heat that answers as told, for a cloud that is logged in.
func endpoint(t *testing.T, answer http.HandlerFunc) *Cloud {
	t.Helper()
	heat := httptest.NewServer(answer)
	t.Cleanup(heat.Close)
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":{"project":{"id":"p"},"catalog":[{"type":"orchestration","endpoints":[{"interface":"public","url":"%s/v1/p"}]}]}}`, heat.URL)
	}))
	t.Cleanup(keystone.Close)
	cloud, err := newCloud(credential{AuthURL: keystone.URL, User: "u", Password: "p", UserDomainID: "d", ProjectID: "p"}, "the cloud",
		Options{Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Observe: func(string, string, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	cloud.transport.pause = time.Millisecond
	t.Cleanup(cloud.transport.base.CloseIdleConnections)
	return cloud
}

func TestATokenGoesToNoOtherHost(t *testing.T) {
	var stolen atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Store(true) }))
	defer thief.Close()
	for name, to := range map[string]func(*http.Request) string{
		"another host":   func(*http.Request) string { return thief.URL },
		"another scheme": func(r *http.Request) string { return "https://" + r.Host },
	} {
		cloud := endpoint(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to(r), http.StatusFound) })
		if _, err := cloud.Stack(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), "points to another host") || stolen.Load() {
			t.Errorf("%s: err %v, followed %v", name, err, stolen.Load())
		}
	}
	cloud := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			http.Redirect(w, r, r.URL.Path+"/?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		fmt.Fprintf(w, `{"stacks":[{"id":"i","stack_name":%q,"links":[{"rel":"self","href":"/v1/p/stacks/one/i"}]}]}`, r.FormValue("name"))
	})
	if s, err := cloud.Stack(t.Context(), "one"); err != nil || s.ID != "i" {
		t.Errorf("the same host: %v, err %v", s, err)
	}
}

func TestALongAnswerIsNotReadToItsEnd(t *testing.T) {
	cloud := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		spaces := make([]byte, 1<<20)
		for {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	})
	if _, err := cloud.Stack(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), "longer than 32 MiB") {
		t.Errorf("err %v", err)
	}
}

func TestWhyThereIsNoConnection(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	tls := openstacktest.StartTLS(t)
	for name, c := range map[string]struct {
		url, ca, says string
		passes        bool
	}{
		"nothing listens":            {closed.URL, "", "connection refused", true},
		"no such name":               {"http://cloud.invalid:5000", "", `host name "cloud.invalid" is not known`, true},
		"an authority of its own":    {tls.URL, "", "give the authority's certificate, as cacert", false},
		"another name":               {strings.Replace(tls.URL, "127.0.0.1", "localhost", 1), tls.CACert(), "another host name", false},
		"no TLS where TLS is wanted": {"https://" + strings.TrimPrefix(openstacktest.Start(t).URL, "http://"), "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, err := newCloud(credential{AuthURL: c.url + "/identity/v3", User: "u", Password: openstacktest.Password, UserDomainID: "d", ProjectID: "p", CA: c.ca}, "the cloud",
				Options{Timeout: 5 * time.Second, Observe: func(string, string, int) {}})
			if err != nil {
				t.Fatal(err)
			}
			cloud.transport.pause = time.Millisecond
			_, err = cloud.Servers(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || IsUnavailable(err) != c.passes || strings.Contains(err.Error(), openstacktest.Password) {
				t.Errorf("err %v", err)
			}
		})
	}
	if _, err := connect(t, tls).Servers(t.Context()); err != nil {
		t.Errorf("with the cacert of its clouds file: %v", err)
	}
}

func TestAServiceThatTheCatalogLacks(t *testing.T) {
	fake := openstacktest.Start(t)
	cloud := connect(t, fake)
	cloud.credential.Region = "RegionTwo"
	_, err := cloud.Servers(t.Context())
	if err == nil || IsNotFound(err) || IsUnavailable(err) || IsForbidden(err) || !strings.Contains(err.Error(), `for region "RegionTwo" has no public endpoint`) {
		t.Errorf("err %v", err)
	}
	wantCalls(t, fake, map[string]int{openstacktest.Login: 1})
}

func TestWhatACatalogLeavesOutOfAnEndpoint(t *testing.T) {
	for _, c := range [][3]string{
		{orchestration, "", "/v1/p"}, {orchestration, "/v1", "/v1/p"}, {orchestration, "/v1/p", "/v1/p"}, {orchestration, "/heat-api/v1/AUTH_p", "/heat-api/v1/AUTH_p"},
		{compute, "", "/v2.1"}, {compute, "/compute/v2.1", "/compute/v2.1"}, {compute, "/v2/p", "/v2/p"}, {compute, "/compute", "/compute/v2.1"},
		{network, "", "/v2.0"}, {network, "/networking", "/networking/v2.0"}, {network, "/v2.0", "/v2.0"},
		{blockStorage, "", "/v3/p"}, {blockStorage, "/volume/v3", "/volume/v3/p"}, {blockStorage, "/v3/p", "/v3/p"},
	} {
		if got := versioned(c[0], c[1], "p"); got != c[2] {
			t.Errorf("%s at %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "999999999": 24 * time.Hour,
		"Sun, 22 Nov 2026 06:01:00 GMT": time.Minute,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
