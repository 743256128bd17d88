package probe_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/probe"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/registrytest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// outcome is a check as "terminal Reason: message", "waiting Reason: message" or "ok".
func outcome(t *testing.T, target probe.Target) string {
	t.Helper()
	if target.Limit == 0 {
		target.Limit = time.Minute // the machine may be busy
	}
	a, err := probe.Check(t.Context(), target)
	var waiting *converge.Waiting
	var terminal *converge.Terminal
	var text string
	switch {
	case err == nil && a.AsksLogin:
		text = "ok, asks for a login"
	case err == nil && a.Untried:
		text = "ok, the login is untried"
	case err == nil:
		text = "ok"
	case errors.As(err, &terminal):
		text = "terminal " + err.Error()
	case errors.As(err, &waiting):
		text = "waiting " + err.Error()
	default:
		t.Fatalf("an error of no kind: %v", err)
	}
	if target.Password != "" && strings.Contains(text, target.Password) {
		t.Errorf("repeats the password: %s", text)
	}
	return strings.Join(append([]string{text}, a.Notes...), "; ")
}

// want compares the beginning, and wants the words somewhere after it.
func want(t *testing.T, got, begin string, words ...string) {
	t.Helper()
	if !strings.HasPrefix(got, begin) {
		t.Errorf("got %q, want %q", got, begin)
	}
	for _, word := range words {
		if !strings.Contains(got, word) {
			t.Errorf("got %q, in which there is no %q", got, word)
		}
	}
}

func TestPasswords(t *testing.T) {
	const user, right = "user01", `grüße "1" \ : %41 日本`
	server := registrytest.Start(t, registrytest.Options{Username: user, Password: right})
	target := func(user, password string) probe.Target {
		return probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: user, Password: password}
	}
	want(t, outcome(t, target(user, right)), "ok")
	want(t, outcome(t, target("", "")), "ok, asks for a login")
	want(t, outcome(t, target(user, "wrong")), "terminal Unauthorized: "+server, "user01", "401", "UNAUTHORIZED", "authentication required")
	want(t, outcome(t, target("other", right)), "terminal Unauthorized: ")

	// The key of a service account has line breaks. htpasswd takes none, a token service does.
	const key = "{\n  \"private_key\": \"-----BEGIN\\n\"\n}\n"
	server = registrytest.Start(t, registrytest.Options{Tokens: registrytest.Tokens(t, user, key, nil)})
	if got := outcome(t, target(user, key)); got != "ok" {
		t.Errorf("a password with line breaks: %s", got)
	}
	want(t, outcome(t, target(user, strings.TrimSpace(key))), "terminal Unauthorized: "+server, "(redacted)")
}

func TestNoLogin(t *testing.T) {
	server := registrytest.Start(t, registrytest.Options{})
	want(t, outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP}), "ok")
	want(t, outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "a", Password: "not asked for"}), "ok, the login is untried")
}

// A registry whose GET /v2/ is for everybody: in front of a real one that wants a login,
// something answers that itself.
func TestALoginIsTriedWhereItIsAskedFor(t *testing.T) {
	tokens := registrytest.Tokens(t, "user01", "right", nil)
	for name, o := range map[string]registrytest.Options{
		"a password": {Username: "user01", Password: "right"},
		"a token":    {Tokens: tokens},
	} {
		t.Run(name, func(t *testing.T) {
			behind := registrytest.Start(t, o)
			forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind})
			var unasked []string
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v2/" {
					forward.ServeHTTP(w, r)
					return
				}
				if r.Header.Get("Authorization") != "" {
					unasked = append(unasked, r.URL.Path)
				}
				w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
				fmt.Fprint(w, "{}")
			})
			target := probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "user01", Password: "right"}
			if got := outcome(t, target); got != "ok" {
				t.Errorf("got %q, want the login tried", got)
			}
			target.Password = "wrong"
			want(t, outcome(t, target), "terminal Unauthorized: "+server, "user01", "401")
			target.Username, target.Password = "", ""
			if got := outcome(t, target); got != "ok" {
				t.Errorf("without a login: got %q", got)
			}
			if len(unasked) > 0 {
				t.Errorf("a password was sent to %q, where nobody asked for it", unasked)
			}
		})
	}
}

func TestACatalogThatSaysNothingOfTheLogin(t *testing.T) {
	other, heard := eavesdropper(t, func(w http.ResponseWriter, r *http.Request) {
		asks(w, `Bearer realm="http://`+r.Host+`/token",service="s"`)
	})
	for name, c := range map[string]struct {
		catalog http.HandlerFunc
		begin   string
	}{
		"that does not exist":    {http.NotFound, "ok, the login is untried"},
		"that fails":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "ok, the login is untried"},
		"that is elsewhere":      {http.RedirectHandler("http://"+other+"/", http.StatusTemporaryRedirect).ServeHTTP, "ok, the login is untried"},
		"with an unknown scheme": {func(w http.ResponseWriter, _ *http.Request) { asks(w, "Negotiate") }, "ok, the login is untried"},
		"that is an administrator's": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				asks(w, `Basic realm="x"`)
				return
			}
			w.WriteHeader(http.StatusForbidden)
		}, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/_catalog" {
					c.catalog(w, r)
					return
				}
				fmt.Fprint(w, "{}")
			})
			if got := outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "a", Password: "secret"}); got != c.begin {
				t.Errorf("got %q, want %q", got, c.begin)
			}
		})
	}
	if len(*heard) > 0 {
		t.Errorf("the password was sent to another host: %q", *heard)
	}
}

func TestIPv6(t *testing.T) {
	server := registrytest.Start(t, registrytest.Options{Address: "[::1]:0", Username: "a", Password: "b c"})
	if !strings.HasPrefix(server, "[::1]:") {
		t.Fatalf("listens on %s", server)
	}
	want(t, outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "a", Password: "b c"}), "ok")
}

func TestTokens(t *testing.T) {
	tokens := registrytest.Tokens(t, "user01", "pässword", nil)
	server := registrytest.Start(t, registrytest.Options{Tokens: tokens})
	target := probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "user01", Password: "pässword"}
	want(t, outcome(t, target), "ok")
	target.Password = "falsch"
	want(t, outcome(t, target), "terminal Unauthorized: "+server+"'s token service "+tokens.URL, "no such user: user01 with (redacted)")
	if tokens.Asked() != 2 {
		t.Errorf("asked %d times for 2 logins", tokens.Asked())
	}
	target.Username, target.Password = "", ""
	want(t, outcome(t, target), "ok, asks for a login")
	if tokens.Asked() != 2 {
		t.Error("asked although there is no login")
	}
}

// A token is as good as the password that it was given for, until it expires.
func TestATokenIsNotRepeated(t *testing.T) {
	const token = "eyJhbGciOiJFUzI1NiJ9.e30.b+w/yzc"
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	gives := answer(http.StatusOK, `{"token":"`+token+`"}`)
	const errorOf = `{"errors":[{"code":"UNAUTHORIZED","message":"invalid token ` + token + `"}]}`
	for name, c := range map[string]struct {
		service, registry http.HandlerFunc
		begin, says       string
	}{
		"by a registry that refuses it": {gives, answer(http.StatusUnauthorized, errorOf), "terminal Unauthorized: ", "invalid token (redacted)"},
		"by a registry that fails":      {gives, answer(http.StatusBadGateway, "GET /?jwt="+url.QueryEscape(token)), "waiting Unreachable: ", "jwt=(redacted)"},
		"that is the access token": {answer(http.StatusOK, `{"access_token":"`+token+`"}`), answer(http.StatusForbidden, "not with "+token),
			"terminal Unauthorized: ", "not with (redacted)"},
		"by a service that refuses":      {answer(http.StatusForbidden, `{"token":"`+token+`"}`), gives, "terminal Unauthorized: ", `{"token":"(redacted)"}`},
		"by a service that does not end": {answer(http.StatusOK, `{"token":"`+token), gives, "waiting Unreachable: ", "gives no token: 200 OK"},
		"by a service with 202":          {answer(http.StatusAccepted, `{"token":"`+token+`"}`), gives, "waiting Unreachable: ", "gives no token: 202 Accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			service := serve(t, c.service)
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "" {
					asks(w, `Bearer realm="http://`+service+`/token",service="s"`)
					return
				}
				c.registry(w, r)
			})
			got := outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "user01", Password: "secret"})
			want(t, got, c.begin+server, c.says)
			for _, form := range []string{token, url.QueryEscape(token), "eyJhbGciOiJFUzI1NiJ9"} {
				if strings.Contains(got, form) {
					t.Errorf("the token is in the message: %s", got)
				}
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	ca := registrytest.CA(t, "the right CA", registrytest.Now())
	good := ca.Issue(t, registrytest.Now(), "127.0.0.1", "registry.example.com")
	server := registrytest.Start(t, registrytest.Options{Certificate: good, Username: "a", Password: "secret"})
	_, port, _ := net.SplitHostPort(server)
	named := map[string]netip.Addr{"registry.example.com": netip.MustParseAddr("127.0.0.1"), "other.example.com": netip.MustParseAddr("127.0.0.1")}
	oldCA := registrytest.CA(t, "the old CA", registrytest.Past())
	listens := func(c *registrytest.Certificate) string {
		return registrytest.Start(t, registrytest.Options{Certificate: c})
	}
	for name, c := range map[string]struct {
		server string
		ca     []byte
		begin  string
		words  []string
	}{
		"good":                            {server, ca.PEM, "ok", nil},
		"good, by its name in /etc/hosts": {"registry.example.com:" + port, ca.PEM, "ok", nil},
		"that name in capital letters":    {"Registry.Example.com:" + port, ca.PEM, "ok", nil},
		"no CA given": {server, nil, "terminal CertificateRejected: " + server,
			[]string{"CN=registry, issued by CN=the right CA", "none is given"}},
		"another CA given": {server, oldCA.PEM, "terminal CertificateRejected: " + server, []string{"issued by CN=the right CA", "the given CN=the old CA"}},
		"another name": {"other.example.com:" + port, ca.PEM, "terminal CertificateRejected: other.example.com",
			[]string{"not for other.example.com but for registry.example.com, 127.0.0.1"}},
		"expired": {listens(ca.Issue(t, registrytest.Past(), "127.0.0.1")), ca.PEM, "waiting CertificateRejected: ",
			[]string{"its certificate (CN=registry", "has expired", day(registrytest.Past().Until)}},
		"not valid yet": {listens(ca.Issue(t, registrytest.Future(), "127.0.0.1")), ca.PEM, "waiting CertificateRejected: ",
			[]string{"not valid yet", "clock"}},
		"of a CA that has expired": {listens(oldCA.Issue(t, registrytest.Now(), "127.0.0.1")), oldCA.PEM, "waiting CertificateRejected: ",
			[]string{"the certificate of its CA (CN=the old CA", "has expired"}},
		"for no name": {listens(ca.Issue(t, registrytest.Now())), ca.PEM, "terminal CertificateRejected: ", []string{"no subject alternative name"}},
	} {
		t.Run(name, func(t *testing.T) {
			target := probe.Target{Server: c.server, Scheme: api.RegistryHTTPS, CA: c.ca, Hosts: named, Username: "a", Password: "secret"}
			want(t, outcome(t, target), c.begin, c.words...)
		})
	}
}

func day(at time.Time) string { return at.UTC().Format("2006-01-02T15") }

func TestTheOtherScheme(t *testing.T) {
	ca := registrytest.CA(t, "CA", registrytest.Now())
	secure := registrytest.Start(t, registrytest.Options{Certificate: ca.Issue(t, registrytest.Now(), "127.0.0.1")})
	plain := registrytest.Start(t, registrytest.Options{})
	want(t, outcome(t, probe.Target{Server: secure, Scheme: api.RegistryHTTP}), "waiting Unreachable: "+secure, `connection_type is "1"`)
	want(t, outcome(t, probe.Target{Server: plain, Scheme: api.RegistryHTTPS, CA: ca.PEM}), "waiting Unreachable: "+plain, `connection_type is "0"`)
}

// serve starts a server of the test and returns its host:port.
func serve(t *testing.T, f http.HandlerFunc) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestWhatIsNoRegistry(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	closed := strings.TrimPrefix(gone.URL, "http://")
	for name, c := range map[string]struct {
		server string
		parts  []string
	}{
		"a web page for everything": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><title>Welcome</title>")
		}), []string{"like a registry", "200 OK", "HTML"}},
		"a web server without that": {serve(t, http.NotFound), []string{"like a registry", "404 Not Found", "404 page not found"}},
		"a login that is no registry's": {serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
			[]string{"like a registry", "401"}},
		"one that is overloaded": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "come\x1b[31m back\x00\n later "+strings.Repeat("ü", 5000), http.StatusServiceUnavailable)
		}), []string{"503 Service Unavailable, come [31m back later üü", "ü…"}},
		"a closed port":   {closed, []string{"connection refused"}},
		"an unknown name": {"registry.invalid:5000", []string{"does not answer", "registry.invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcome(t, probe.Target{Server: c.server, Scheme: api.RegistryHTTP, Username: "a", Password: "secret"})
			want(t, got, "waiting Unreachable: "+c.server, c.parts...)
			if len([]rune(got)) > 700 || strings.ContainsAny(got, "\x1b\x00\n") {
				t.Errorf("not one short line: %q", got)
			}
		})
	}
}

func TestServerThatHangs(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	hangs := func(http.ResponseWriter, *http.Request) { <-over }
	trickles := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-over
	}
	for name, f := range map[string]http.HandlerFunc{"before its answer": hangs, "in its answer": trickles} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(f)
			s.Start()
			t.Cleanup(s.CloseClientConnections)
			server := strings.TrimPrefix(s.URL, "http://")
			got := outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP, Limit: 300 * time.Millisecond})
			want(t, got, "waiting Unreachable: "+server, "no answer within 300ms")
		})
	}
}

// endless sends much more than is read.
func TestAnswerWithoutEnd(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat("x", 64<<10)); err != nil {
				return
			}
		}
	})
	want(t, outcome(t, probe.Target{Server: server, Scheme: api.RegistryHTTP}), "waiting Unreachable: "+server, "xxx…")
}

// eavesdropper records every password that it receives.
func eavesdropper(t *testing.T, f http.HandlerFunc) (server string, heard *[]string) {
	heard = &[]string{}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			*heard = append(*heard, a)
		}
		f(w, r)
	}), heard
}

func asks(w http.ResponseWriter, how string) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	w.Header().Set("Www-Authenticate", how)
	w.WriteHeader(http.StatusUnauthorized)
}

func TestRedirectsCarryNoPassword(t *testing.T) {
	other, heard := eavesdropper(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/open/" {
			fmt.Fprint(w, "{}")
			return
		}
		asks(w, `Basic realm="x"`)
	})
	to := func(path string, always bool) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			if !always && r.Header.Get("Authorization") == "" {
				asks(w, `Basic realm="x"`)
				return
			}
			http.Redirect(w, r, "http://"+other+path, http.StatusTemporaryRedirect)
		})
	}
	target := func(server string) probe.Target {
		return probe.Target{Server: server, Scheme: api.RegistryHTTP, Username: "user01", Password: "secret"}
	}
	want(t, outcome(t, target(to("/v2/", true))), "waiting Unreachable: ", "redirects to http://"+other, "give that one as server")
	want(t, outcome(t, target(to("/v2/?signed=1", false))), "waiting Unreachable: ", "307", "to http://"+other+"/v2/, which is not followed")
	want(t, outcome(t, target(to("/open/", true))), "ok")
	if len(*heard) != 0 {
		t.Errorf("the other host was sent %q", *heard)
	}
	round := ""
	round = serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+round+"/v2/", http.StatusFound)
	})
	want(t, outcome(t, target(round)), "waiting Unreachable: ", "302")
}

func TestTokenServiceThatIsNotTrusted(t *testing.T) {
	service, heard := eavesdropper(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token": "t"}`) })
	ca := registrytest.CA(t, "CA", registrytest.Now())
	for name, c := range map[string]struct{ realm, begin, word string }{
		"in plain HTTP":  {"http://" + service + "/token", "terminal Unauthorized: ", "unencrypted"},
		"no address":     {"ftp://" + service, "waiting Unreachable: ", "no address"},
		"nothing at all": {"", "terminal Unauthorized: ", "401"}, // the registry itself, which answers 401
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asks(w, `Bearer realm="`+c.realm+`",service="s"`)
			}))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, registrytest.Now(), "127.0.0.1").TLS()}}
			s.StartTLS()
			t.Cleanup(s.Close)
			target := probe.Target{Server: strings.TrimPrefix(s.URL, "https://"), Scheme: api.RegistryHTTPS, CA: ca.PEM, Username: "user01", Password: "secret"}
			want(t, outcome(t, target), c.begin, c.word)
		})
	}
	if len(*heard) != 0 {
		t.Errorf("the service was sent %q", *heard)
	}
}

func TestProxies(t *testing.T) {
	server := registrytest.Start(t, registrytest.Options{Address: "127.0.0.1:0"})
	_, port, _ := net.SplitHostPort(server)
	var through []string
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		through = append(through, r.URL.Host)
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	})
	// Loopback addresses never go through a proxy, so that a name is needed.
	named := "registry.example.com:" + port
	const nonsense = "http://user1:password1@host1:port1"
	for name, c := range map[string]struct {
		proxy   api.ProxySection
		want    string
		through bool
	}{
		"none":                      {api.ProxySection{}, "ok", false},
		"used":                      {api.ProxySection{HTTP: "http://" + proxy}, "ok; " + named + ": asked through the proxy of the parameters", true},
		"without a scheme":          {api.ProxySection{HTTP: proxy}, "ok; " + named + ": asked through the proxy", true},
		"for the other scheme":      {api.ProxySection{HTTPS: "http://" + proxy}, "ok", false},
		"not for this server":       {api.ProxySection{HTTP: "http://" + proxy, NoProxy: "10.0.0.1,.example.com"}, "ok", false},
		"no address":                {api.ProxySection{HTTP: nonsense}, "ok; " + named + ": its proxy (http) is no usable address", false},
		"no address, nor needed":    {api.ProxySection{HTTP: nonsense, NoProxy: "registry.example.com"}, "ok", false},
		"no address, other scheme":  {api.ProxySection{HTTPS: nonsense}, "ok", false},
		"of a kind that is unknown": {api.ProxySection{HTTP: "gopher://" + proxy}, "ok; " + named, false},
	} {
		t.Run(name, func(t *testing.T) {
			through = nil
			got := outcome(t, probe.Target{Server: named, Scheme: api.RegistryHTTP, Proxy: &c.proxy,
				Hosts: map[string]netip.Addr{"registry.example.com": netip.MustParseAddr("127.0.0.1")}})
			if !strings.HasPrefix(got, c.want) || c.want == "ok" && got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.Contains(got, "password1") {
				t.Errorf("repeats the proxy's password: %s", got)
			}
			if (len(through) > 0) != c.through {
				t.Errorf("through the proxy: %q", through)
			}
		})
	}
}
