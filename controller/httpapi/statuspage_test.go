package httpapi_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/ui"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// uiPolicy is what each route of the status page asks for.
var uiPolicy = map[string]ui.Scheme{
	"GET /": ui.Open, "GET /ui": ui.Open, "GET /ui/assets/:file": ui.Open, "GET /ui/sign-in": ui.Open,
	"POST /ui/sign-in": ui.SigningIn,

	"POST /ui/sign-out": ui.SignedIn, "GET /ui/events": ui.SignedIn,
	"GET /ui/": ui.SignedIn, "GET /ui/instances": ui.SignedIn, "GET /ui/instances/:instance": ui.SignedIn,
	"GET /ui/nodes": ui.SignedIn, "GET /ui/nodes/:node": ui.SignedIn,
	"GET /ui/operations": ui.SignedIn, "GET /ui/operations/:instance/:sequence": ui.SignedIn,
	"GET /ui/volumes": ui.SignedIn, "GET /ui/volumes/:volume": ui.SignedIn,
	"GET /ui/registries": ui.SignedIn, "GET /ui/history": ui.SignedIn,
}

// uiPaths fills the parameters of the page's paths.
var uiPaths = strings.NewReplacer(":instance", instanceID, ":sequence", "1", ":node", serverID, ":volume", volumeID, ":file", "none")

const asFragment = "HX-Request: true"

// form posts a form as the page's own do.
func (w *world) form(path string, values url.Values, headers ...string) answer {
	w.t.Helper()
	return w.call(w.client, http.MethodPost, path, values.Encode(),
		append([]string{"Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin"}, headers...)...)
}

// signIn is the header with the cookie that a sign-in gives.
func (w *world) signIn(token string) (cookie string) {
	w.t.Helper()
	a := w.form("/ui/sign-in", url.Values{"token": {token}})
	if a.status != http.StatusSeeOther {
		w.t.Fatalf("the sign-in is answered with %d: %s", a.status, a.body)
	}
	value, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return "Cookie: " + value
}

// ledToForm reports whether the answer leads to the form, and back to the path.
func ledToForm(a answer, path string) bool {
	return a.status == http.StatusSeeOther && a.header.Get("Location") == "/ui/sign-in?next="+url.QueryEscape(path)
}

func TestEveryRouteOfThePageAsksForWhatItsPolicySays(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	cookie := w.signIn(w.viewer)
	routes := w.UI.Routes()
	for _, route := range routes {
		name := route.Method + " " + route.Path
		want, known := uiPolicy[name]
		if !known || route.Scheme != want {
			t.Errorf("%s asks for %q, want %q", name, route.Scheme, want)
			continue
		}
		if reads := route.Method == http.MethodGet; !reads && name != "POST /ui/sign-in" && name != "POST /ui/sign-out" {
			t.Errorf("%s does more than read", name)
		}
		t.Run(name, func(t *testing.T) {
			path := uiPaths.Replace(route.Path)
			call := func(headers ...string) answer {
				t.Helper()
				a := w.call(w.client, route.Method, path, "", append(headers, "Sec-Fetch-Site: same-origin")...)
				if !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';") ||
					a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Referrer-Policy") != "no-referrer" || a.header.Get("Cache-Control") != "no-store" {
					t.Errorf("the answer has the headers %v", a.header)
				}
				return a
			}
			if want != ui.SignedIn {
				if a := call(); a.status == http.StatusForbidden || strings.HasPrefix(a.header.Get("Location"), "/ui/sign-in") {
					t.Errorf("nobody: %d %v", a.status, a.header)
				}
				return
			}
			for who, credential := range map[string]string{"nobody": "X: ", "an operator's bearer token": "Authorization: Bearer " + w.operator, "another cookie": "Cookie: " + cookie[8:] + "x"} {
				switch a := call(credential); {
				case route.Stream && a.status != http.StatusUnauthorized,
					!route.Stream && route.Method == http.MethodGet && !ledToForm(a, path),
					route.Method == http.MethodPost && (a.status != http.StatusSeeOther || a.header.Get("Location") != "/ui/sign-in"):
					t.Errorf("%s: %d %v", who, a.status, a.header)
				}
				if a := call(credential, asFragment); a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("HX-Redirect"), "/ui/sign-in") || a.body != "" {
					t.Errorf("%s, for a fragment: %d %v %s", who, a.status, a.header, a.body)
				}
			}
			if route.Stream || route.Method == http.MethodPost {
				return
			}
			for _, kind := range []string{"X: page", asFragment} {
				if a := call(cookie, kind); a.status != http.StatusOK && a.status != http.StatusNotFound || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
					t.Errorf("with the cookie (%s): %d %v %s", kind, a.status, a.header, a.body)
				}
			}
		})
	}
	if len(routes) != len(uiPolicy) {
		t.Errorf("there are %d routes, and the policy has %d", len(routes), len(uiPolicy))
	}
}

func TestErrorsOfThePageArePages(t *testing.T) {
	w := newWorld(t)
	cookie := w.signIn(w.viewer)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/ui/nothing", http.StatusNotFound},
		{"GET", "/ui/assets/nothing", http.StatusNotFound},
		{"GET", "/ui/nodes/" + serverID, http.StatusNotFound},
		{"GET", "/ui/nodes/nothing", http.StatusNotFound},
		{"GET", "/ui/operations/" + instanceID + "/x", http.StatusNotFound},
		{"POST", "/ui/nodes", http.StatusMethodNotAllowed},
		{"DELETE", "/ui/", http.StatusMethodNotAllowed},
	} {
		a := w.call(w.client, c.method, c.path, "", cookie)
		if a.status != c.status || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s: %d %v", c.method, c.path, a.status, a.header)
		}
	}
}

// The cookie opens the page, and nothing of the API; no answer of the API is a script of the page.
func TestTheAPIIgnoresTheCookie(t *testing.T) {
	w := newWorld(t)
	cookie := w.signIn(w.operator)
	document, err := httpapi.Document()
	w.must(err)
	refused := 0
	for path, item := range document.Paths.Map() {
		for method, op := range item.Operations() {
			if policy[op.OperationID] == "open" {
				continue
			}
			if a := w.call(w.client, method, paths.Replace(path), "", cookie); a.status != http.StatusUnauthorized || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s is answered with %d %v: %s", op.OperationID, a.status, a.header, a.body)
			}
			refused++
		}
	}
	if refused != len(policy)-5 {
		t.Errorf("%d operations were tried, of %d", refused, len(policy))
	}
}

func TestTheCookieIsForThisHostAndForNoScript(t *testing.T) {
	w := newWorld(t)
	a := w.form("/ui/sign-in", url.Values{"token": {" " + w.viewer + "\n"}, "next": {"/ui/nodes?state=Lost"}})
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/ui/nodes?state=Lost" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	w.must(err)
	if cookie.Name != "__Host-nodehitch" || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge != 8*3600 {
		t.Errorf("%+v", cookie)
	}
	if _, secret, _ := strings.Cut(w.viewer, "."); strings.Contains(cookie.Value, secret) {
		t.Error("the token is in the cookie")
	}
	out := w.form("/ui/sign-out", nil, "Cookie: "+cookie.Name+"="+cookie.Value)
	gone, err := http.ParseSetCookie(out.header.Get("Set-Cookie"))
	w.must(err)
	if out.status != http.StatusSeeOther || out.header.Get("Location") != "/ui/sign-in" || gone.Name != cookie.Name || gone.MaxAge >= 0 || gone.Value != "" || gone.Path != "/" || !gone.Secure {
		t.Errorf("after the sign-out: %d %+v", out.status, gone)
	}
	if !strings.Contains(w.log.String(), "event=page.signed-in token="+strings.Split(cookie.Value, ".")[0]+" name=viewer") {
		t.Error("the sign-in is not in the log")
	}
}

func TestAForgedCookieOpensNothing(t *testing.T) {
	w := newWorld(t)
	good := strings.TrimPrefix(w.signIn(w.viewer), "Cookie: __Host-nodehitch=")
	parts := strings.Split(good, ".")
	id, until, mac := parts[0], parts[1], parts[2]
	operator, _, _ := strings.Cut(w.operator, ".")
	later, err := strconv.ParseInt(until, 10, 64)
	w.must(err)
	of := func(purpose, subject string) string {
		return subject + "." + base64.RawURLEncoding.EncodeToString(w.Store.MAC(purpose, []byte(subject)))
	}
	if own := of("status page session", id+"."+until); own != good {
		t.Fatalf("this test makes cookies in another way: %s, not %s", own, good)
	}
	for name, value := range map[string]string{
		"":                    "",
		"a token":             w.operator,
		"without a MAC":       id + "." + until,
		"an empty MAC":        id + "." + until + ".",
		"another token":       operator + "." + until + "." + mac,
		"a later end":         fmt.Sprintf("%s.%d.%s", id, later+3600, mac),
		"a MAC for a token":   of("api token", id+"."+until),
		"no end":              of("status page session", id),
		"an end in words":     of("status page session", id+".never"),
		"no token":            of("status page session", "."+until),
		"a token that is not": of("status page session", "0123456789abcdef."+until),
		"an end that is over": of("status page session", fmt.Sprintf("%s.%d", id, w.now().Unix()-1)),
	} {
		if a := w.call(w.client, "GET", "/ui/", "", "Cookie: __Host-nodehitch="+value); !ledToForm(a, "/ui/") {
			t.Errorf("%s: %d %.200s", name, a.status, a.body)
		}
	}
	if a := w.call(w.client, "GET", "/ui/", "", "Cookie: __Host-nodehitch="+good); a.status != http.StatusOK {
		t.Errorf("the good one: %d", a.status)
	}
}

// A session outlives a restart, and ends after eight hours, or with its token.
func TestASessionEndsWithItsTimeOrItsToken(t *testing.T) {
	w := newWorld(t)
	var short wire.NewToken
	w.ok(w.as(w.operator, "POST", "/v1/tokens", `{"name": "short", "scope": "viewer", "expiresInSeconds": 3600}`), http.StatusCreated, &short)
	viewer, expiring, operator := w.signIn(w.viewer), w.signIn(short.Secret), w.signIn(w.operator)
	check := func(when string, want map[string]bool) {
		t.Helper()
		for cookie, open := range want {
			a := w.call(w.client, "GET", "/ui/nodes", "", cookie)
			if open && a.status != http.StatusOK || !open && !ledToForm(a, "/ui/nodes") {
				t.Errorf("%s: %d, want it open: %v", when, a.status, open)
			}
		}
	}
	check("at once", map[string]bool{viewer: true, expiring: true, operator: true})
	w.must(w.Tokens.Revoke(context.Background(), strings.Split(w.operator, ".")[0]))
	check("when a token is revoked", map[string]bool{viewer: true, expiring: true, operator: false})
	w.ahead.Store(int64(time.Hour))
	check("when a token has expired", map[string]bool{viewer: true, expiring: false})
	w.ahead.Store(int64(8*time.Hour - time.Minute))
	check("after nearly eight hours", map[string]bool{viewer: true})
	w.ahead.Store(int64(8 * time.Hour))
	check("after eight hours", map[string]bool{viewer: false})
}

func TestASignInThatIsRefused(t *testing.T) {
	w := newWorld(t)
	id, _, _ := strings.Cut(w.viewer, ".")
	bodies := map[string]bool{}
	for name, token := range map[string]string{"none": "", "of no id": "x", "unknown": "0123456789abcdef.x", "wrong secret": id + ".x", "the id alone": id, "cut off": w.viewer[:len(w.viewer)-1]} {
		a := w.form("/ui/sign-in", url.Values{"token": {token}, "next": {"/ui/nodes"}})
		if a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" || token != "" && len(token) > 1 && strings.Contains(a.body, token) {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
		bodies[a.body] = true
	}
	if len(bodies) != 1 {
		t.Errorf("wrong tokens get %d different answers", len(bodies))
	}
	if a := w.form("/ui/sign-in", url.Values{"token": {w.tacker}}); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a token for Tacker: %d %v", a.status, a.header)
	}
	if a := w.form("/ui/sign-in", url.Values{"token": {strings.Repeat("x", 10_000)}}); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: %d", a.status)
	}
	if a := w.form("/ui/sign-in?token="+w.viewer, nil); a.status != http.StatusUnauthorized {
		t.Errorf("a token in the URL: %d", a.status)
	}
	for _, secret := range []string{w.viewer, w.tacker} {
		if _, half, _ := strings.Cut(secret, "."); strings.Contains(w.log.String(), half) {
			t.Error("a token is in the log")
		}
	}
	if !strings.Contains(w.log.String(), "event=page.refused") {
		t.Error("the log does not tell of it")
	}
}

func TestAnotherSiteCannotSignIn(t *testing.T) {
	w := newWorld(t)
	cookie := w.signIn(w.viewer)
	for name, headers := range map[string][]string{
		"of another site":               {"Sec-Fetch-Site: cross-site"},
		"of a sibling":                  {"Sec-Fetch-Site: same-site"},
		"another origin":                {"Sec-Fetch-Site: ", "Origin: https://attacker.example"},
		"an origin that says nothing":   {"Sec-Fetch-Site: ", "Origin: null"},
		"the same host at another port": {"Sec-Fetch-Site: ", "Origin: https://127.0.0.1:1"},
	} {
		if a := w.form("/ui/sign-in", url.Values{"token": {w.viewer}}, headers...); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("a sign-in, %s: %d %v", name, a.status, a.header)
		}
		if a := w.form("/ui/sign-out", nil, append(headers, cookie)...); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("a sign-out, %s: %d %v", name, a.status, a.header)
		}
	}
	if a := w.form("/ui/sign-in", url.Values{"token": {w.viewer}}, "Sec-Fetch-Site: ", "Origin: "+w.url); a.status != http.StatusSeeOther {
		t.Errorf("an old browser, from the page itself: %d %s", a.status, a.body)
	}
}

func TestOneNetworkGuessesSlowly(t *testing.T) {
	w := newWorld(t)
	at := w.now()
	w.UI.Now = func() time.Time { return at } // no time passes
	for range 10 {
		if a := w.form("/ui/sign-in", url.Values{"token": {"x"}}); a.status != http.StatusUnauthorized {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := w.form("/ui/sign-in", url.Values{"token": {"x"}}); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "6" {
		t.Errorf("the eleventh: %d %v", a.status, a.header)
	}
	w.signIn(w.viewer) // a good token is let in all the same
}

// Somebody who is signed in follows a link of another site, for which the browser sends no cookie.
func TestALinkOfAnotherSiteIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	const link = "/ui/nodes?state=Lost"
	if a := w.call(w.client, "GET", link, "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"); a.status != http.StatusUnauthorized || a.header.Get("Refresh") != "0; url="+link {
		t.Errorf("the link: %d %v", a.status, a.header)
	}
	if a := w.call(w.client, "GET", link, "", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"); !ledToForm(a, link) {
		t.Errorf("the page that asks again: %d %v", a.status, a.header)
	}
	if a := w.call(w.client, "GET", link, "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", w.signIn(w.viewer)+"x"); !ledToForm(a, link) {
		t.Errorf("with a cookie that is not good: %d %v", a.status, a.header)
	}
}

func TestASignInLeadsToThePageOnly(t *testing.T) {
	w := newWorld(t)
	for next, want := range map[string]string{
		"":                        "/ui/",
		"/ui/nodes?state=Lost&q=": "/ui/nodes?state=Lost&q=",
		"/ui/instances/a%2Fb":     "/ui/instances/a%2Fb",
		"/":                       "/ui/",
		"/ui":                     "/ui/",
		"/v1/nodes":               "/ui/",
		"//attacker.example/ui/":  "/ui/",
		"https://x.example/ui/":   "/ui/",
		"javascript:alert(1)":     "/ui/",
		`\\x.example/ui/`:         "/ui/",
		"/ui/\r\nX: y":            "/ui/",
	} {
		a := w.form("/ui/sign-in", url.Values{"token": {w.viewer}, "next": {next}})
		if a.header.Get("Location") != want || a.header.Get("X") != "" {
			t.Errorf("%q leads to %q, want %q", next, a.header.Get("Location"), want)
		}
	}
	if a := w.call(w.client, "GET", "/ui/sign-in?next=/ui/volumes", "", w.signIn(w.viewer)); a.status != http.StatusSeeOther || a.header.Get("Location") != "/ui/volumes" {
		t.Errorf("the form, signed in: %d %v", a.status, a.header)
	}
}

// Whatever the token may do, the page shows what a viewer may see.
func TestThePageHasAViewersRights(t *testing.T) {
	w := newWorld(t)
	_, join := w.enroll()
	cookie := w.signIn(w.operator)
	seen := 0
	for name, scheme := range uiPolicy {
		method, path, _ := strings.Cut(name, " ")
		if scheme != ui.SignedIn || method != http.MethodGet || path == "/ui/events" {
			continue
		}
		for _, kind := range []string{"X: page", asFragment} {
			a := w.call(w.client, method, uiPaths.Replace(path), "", cookie, kind)
			for what, secret := range map[string]string{"the join token": join, "a password": password, "a proxy's password": "proxy-Passw0rd", "a VIM's password": "vim-Passw0rd", "the operator's token": w.operator} {
				if _, half, ok := strings.Cut(secret, "."); ok {
					secret = half
				}
				if strings.Contains(a.body, secret) {
					t.Errorf("%s has %s", path, what)
				}
			}
			seen++
		}
	}
	if seen != 22 {
		t.Errorf("looked at %d answers", seen)
	}
}

// An unchanged fragment is not sent again.
func TestAFragmentThatTheBrowserHas(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	cookie := w.signIn(w.viewer)
	first := w.call(w.client, "GET", "/ui/nodes", "", cookie, asFragment)
	tag := first.header.Get("ETag")
	if first.status != http.StatusOK || tag == "" || first.header.Get("Vary") != "HX-Request" {
		t.Fatalf("%d %v", first.status, first.header)
	}
	w.ahead.Store(int64(time.Hour))
	if a := w.call(w.client, "GET", "/ui/nodes", "", cookie, asFragment, "If-None-Match: "+tag); a.status != http.StatusNotModified || a.body != "" || a.header.Get("Content-Security-Policy") == "" {
		t.Errorf("an hour later: %d %v", a.status, a.header)
	}
	w.must(w.Enrollment.Revoke(context.Background(), serverID, "a test"))
	if a := w.call(w.client, "GET", "/ui/nodes", "", cookie, asFragment, "If-None-Match: "+tag); a.status != http.StatusOK || a.header.Get("ETag") == tag {
		t.Errorf("after a change: %d %v", a.status, a.header)
	}
}

// quickPage has streams that tell of changes at once.
func quickPage(o *httpapi.Options) {
	o.UI.Times = ui.Times{CheckInterval: time.Millisecond, MessageInterval: time.Millisecond, Heartbeat: 50 * time.Millisecond}
}

// stream is an open stream of the page.
type stream struct {
	t      testing.TB
	body   io.ReadCloser
	lines  *bufio.Scanner
	events map[string]int
	beats  int
}

func (w *world) openStream(cookie string) *stream {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second) // for a stream that does not end
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/ui/events", nil)
	w.must(err)
	name, value, _ := strings.Cut(cookie, ": ")
	r.Header.Set(name, value)
	response, err := w.client.Do(r)
	w.must(err)
	w.t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Content-Security-Policy") == "" {
		w.t.Fatalf("the stream is answered with %s %v", response.Status, response.Header)
	}
	s := &stream{t: w.t, body: response.Body, lines: bufio.NewScanner(response.Body), events: map[string]int{}}
	s.until("retry", func() bool { return strings.HasPrefix(s.lines.Text(), "retry:") })
	s.until("the last of all lists", func() bool { return s.events["events"] > 0 && s.lines.Text() == "" })
	if len(s.events) != 6 {
		w.t.Errorf("at first it tells of %v", s.events)
	}
	clear(s.events)
	return s
}

// until reads lines until one is as wanted.
func (s *stream) until(what string, ok func() bool) {
	s.t.Helper()
	for s.next() {
		if ok() {
			return
		}
	}
	s.t.Fatalf("the stream ended before: %s", what)
}

func (s *stream) next() bool {
	if !s.lines.Scan() {
		return false
	}
	if name, is := strings.CutPrefix(s.lines.Text(), "event: "); is {
		s.events[name]++
	}
	if s.lines.Text() == ":" {
		s.beats++
	}
	return true
}

func TestTheStreamTellsWhichListsHaveChanged(t *testing.T) {
	w := newWorld(t, quickPage)
	s := w.openStream(w.signIn(w.viewer))
	w.enroll()
	for _, name := range []string{"instances", "nodes", "events", "volumes"} {
		s.until(name, func() bool { return s.events[name] > 0 })
	}
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	w.ok(w.as(w.operator, "POST", "/v1/vnf_instances/"+instanceID+"/operations", `{"operation": "INSTANTIATE", "phase": "START"}`), http.StatusAccepted, nil)
	s.until("operations", func() bool { return s.events["operations"] > 0 })
	clear(s.events)
	w.must(w.Enrollment.Revoke(context.Background(), serverID, "a test"))
	s.until("the nodes and the events again", func() bool { return s.events["nodes"] > 0 && s.events["events"] > 0 })
}

// However many changes there are, a list is told of once in each pace.
func TestTheStreamTellsOfAListOnceInAPace(t *testing.T) {
	w := newWorld(t, quickPage, func(o *httpapi.Options) { o.UI.Times.MessageInterval = 250 * time.Millisecond })
	s := w.openStream(w.signIn(w.viewer))
	began, beats, changes := time.Now(), s.beats+10, 0
	s.until("ten heartbeats", func() bool {
		w.Hub.Changed("nodes") // with each line that comes
		changes++
		return s.beats >= beats
	})
	if most := int(time.Since(began)/(250*time.Millisecond)) + 1; s.events["nodes"] == 0 || s.events["nodes"] > most {
		t.Errorf("%d changes were told of %d times, want once to %d times", changes, s.events["nodes"], most)
	}
}

func TestAStreamEndsWithItsToken(t *testing.T) {
	w := newWorld(t, quickPage)
	var short wire.NewToken
	w.ok(w.as(w.operator, "POST", "/v1/tokens", `{"name": "short", "scope": "viewer", "expiresInSeconds": 60}`), http.StatusCreated, &short)
	w.ahead.Store(int64(57 * time.Second))
	revoked, expiring, stays := w.openStream(w.signIn(w.viewer)), w.openStream(w.signIn(short.Secret)), w.openStream(w.signIn(w.operator))
	w.must(w.Tokens.Revoke(context.Background(), strings.Split(w.viewer, ".")[0]))
	for name, s := range map[string]*stream{"of a revoked token": revoked, "of one that expires": expiring} {
		for s.next() { // until the end
		}
		if s.lines.Err() != nil || s.events["nodes"] == 0 || s.events["operations"] == 0 {
			t.Errorf("the stream %s ended with %v, after %v", name, s.lines.Err(), s.events)
		}
	}
	beats := stays.beats + 2
	stays.until("it goes on", func() bool { return stays.beats >= beats })
}

func TestAStreamIsHeldLikeAPollAndEndsAtShutdown(t *testing.T) {
	w := newWorld(t, hasty, quickPage)
	s := w.openStream(w.signIn(w.viewer))
	if n := w.held(); n != 1 {
		t.Errorf("%v polls are held", n)
	}
	s.until("more than a request may take", func() bool { return s.beats >= 30 })
	w.handler.Drain()
	for s.next() { // until the end
	}
	if s.lines.Err() != nil {
		t.Errorf("the stream ended with %v", s.lines.Err())
	}
	eventually(t, "no poll is held", func() bool { return w.held() == 0 })
}

func TestAStreamEndsWithItsBrowser(t *testing.T) {
	w := newWorld(t, quickPage)
	w.openStream(w.signIn(w.viewer)).body.Close()
	eventually(t, "no poll is held", func() bool { return w.held() == 0 && w.Hub.Waiting() == 0 })
}

// held is how many requests are held, as the metrics have it.
func (w *world) held() (n int) {
	w.t.Helper()
	scraped := httptest.NewRecorder()
	w.Metrics.Handler().ServeHTTP(scraped, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/metrics", nil))
	const name = "\nnodehitch_long_polls_in_flight "
	_, rest, found := strings.Cut(scraped.Body.String(), name)
	if _, err := fmt.Sscan(rest, &n); !found || err != nil {
		w.t.Fatalf("the metrics have no %s", name)
	}
	return n
}
