package probe

import (
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

func TestChallenges(t *testing.T) {
	for line, want := range map[string][]challenge{
		`Basic realm="Registry Realm"`: {{"basic", map[string]string{"realm": "Registry Realm"}}},
		`Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push"`: {{"bearer",
			map[string]string{"realm": "https://auth.docker.io/token", "service": "registry.docker.io", "scope": "repository:a/b:pull,push"}}},
		`BASIC Realm = x , bearer REALM="a\"b"`: {{"bearer", map[string]string{"realm": `a"b`}}, {"basic", map[string]string{"realm": "x"}}},
		`Negotiate, NTLM, Basic`:                {{"basic", map[string]string{}}},
		`Negotiate YIIJvwYGKwYBBQUCoIIJszCC==`:  nil,
		`Basic realm="never closed`:             {{"basic", map[string]string{"realm": "never closed"}}},
		`realm="of nobody", ,,; Basic realm=`:   {{"basic", map[string]string{"realm": ""}}},
		``:                                      nil,
	} {
		got := challenges(http.Header{"Www-Authenticate": {line}})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(challenge{})); diff != "" {
			t.Errorf("of %s: %s", line, diff)
		}
	}
}

// For any header: names are tokens in lower case, nothing is made up, and parsing the result
// again, written in the form of RFC 7235, gives the same.
func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://auth/token",service="s", Basic realm=x`)
	f.Add(`BASIC Realm = x , bearer REALM="a\"b\\"`)
	f.Add(`Negotiate YIIJvwYGKwYBBQUCoIIJszCC==, Basic realm="never closed`)
	f.Fuzz(func(t *testing.T, line string) {
		found, taken := parseChallenges(line), 0
		for _, c := range found {
			taken += len(c.scheme)
			for name, value := range c.parameters {
				taken += len(name) + len(value)
				if !lowerToken.MatchString(name) {
					t.Errorf("the parameter %q", name)
				}
			}
			if !lowerToken.MatchString(c.scheme) {
				t.Errorf("the scheme %q", c.scheme)
			}
		}
		if taken > len(line) {
			t.Errorf("%d bytes of %d", taken, len(line))
		}
		if again := parseChallenges(written(found)); !reflect.DeepEqual(again, found) {
			t.Errorf("%q is read as %q, written as %q and read as %q", line, found, written(found), again)
		}
	})
}

var lowerToken = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9a-z]+$")

// written is a header with these challenges.
func written(all []challenge) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(", " + c.scheme)
		for _, name := range slices.Sorted(maps.Keys(c.parameters)) {
			b.WriteString(" " + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.parameters[name]) + `",`)
		}
	}
	return b.String()
}

// Whatever challenges an HTTPS registry sends: the password is never sent unencrypted, nor to
// a host that the registry has not named. The message is one bounded line without the
// password and the token, even if servers repeat them.
func FuzzLogin(f *testing.F) {
	f.Add(`Bearer realm="https://auth/token",service="s", Basic realm=x`, true)
	f.Add(`Bearer realm="http://auth/token"`, false)
	f.Add(`Bearer realm="//pa%2Fss.w0rd"`, false)
	f.Add(`Bearer realm="ftp://pa/ss.w0rd"`, true)
	f.Add(`Basic realm="x"`, true)
	f.Fuzz(func(t *testing.T, line string, gives bool) {
		const password, token = "pa/ss.w0rd", "t0ken-of-the-service"
		s := newSession(Target{Server: "registry.example:5000", Scheme: api.RegistryHTTPS, Username: "me", Password: password})
		s.client.Transport = servers(func(r *http.Request) (int, string) {
			switch named := strings.Contains(strings.ReplaceAll(line, `\`, ""), r.URL.Host) || strings.Contains(line, "%"); {
			case r.URL.Scheme != "https":
				t.Errorf("asked %s", r.URL)
			case r.URL.Host != s.base.Host && !named:
				t.Errorf("asked %s, which was not named", r.URL)
			}
			if user, _, basic := r.BasicAuth(); gives && basic && user == "me" && r.URL.Path != s.base.Path {
				return http.StatusOK, `{"token": "` + token + `"}`
			}
			return http.StatusUnauthorized, strings.Repeat(password+" is wrong, "+url.QueryEscape(password)+"\n\x1b[31m"+r.Header.Get("Authorization"), 100)
		})
		err := s.login(t.Context(), challenges(http.Header{"Www-Authenticate": {line}}))
		if err == nil {
			t.Fatal("logged in, which no server allowed")
		}
		text := s.explain(err, "").Error()
		for _, secret := range []string{password, url.QueryEscape(password), base64.StdEncoding.EncodeToString([]byte("me:" + password)), token} {
			if strings.Contains(text, secret) {
				t.Errorf("repeats %q: %s", secret, text)
			}
		}
		if n := utf8.RuneCountInString(text); n > 3*maxQuote || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%d characters: %q", n, text)
		}
	})
}

// servers answer with a status and a body.
type servers func(*http.Request) (int, string)

func (s servers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := s(r)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A server that quotes the login in an error does so in JSON, whose encoders differ.
func TestSecretsAreTakenOutInEveryForm(t *testing.T) {
	const password = `p"a\s/s<&é`
	s := newSession(Target{Server: "registry.example:5000", Scheme: api.RegistryHTTPS, Username: "me", Password: password})
	for name, said := range map[string]string{
		"as it is":              password,
		"JSON":                  `p\"a\\s/s<&é`,
		"JSON for HTML":         `p\"a\\s/s\u003c\u0026é`,
		"JSON, slashes escaped": `p\"a\\s\/s<&é`,
		"JSON in ASCII":         `p\"a\\s/s<&\u00e9`,
		"a query":               url.QueryEscape(password),
		"the header":            base64.StdEncoding.EncodeToString([]byte("me:" + password)),
	} {
		if got := s.clean("not with " + said + "!"); got != "not with (redacted)!" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Without a login there is no secret: its header would be that of two empty texts.
func TestWithoutALoginNothingIsTakenOut(t *testing.T) {
	const text = "see Og== in the manual"
	if got := newSession(Target{Server: "registry.example:5000", Scheme: api.RegistryHTTPS}).clean(text); got != text {
		t.Errorf("%q is shown as %q", text, got)
	}
}
