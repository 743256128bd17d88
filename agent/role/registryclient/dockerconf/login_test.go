package dockerconf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
)

var alice = dockerconf.Login{Username: "alice", Password: "pässwörd:✓"}

// auth is alice's, by `printf 'alice:pässwörd:✓' | base64`.
const auth = "YWxpY2U6cMOkc3N3w7ZyZDrinJM="

// TestSetLogin: laid out as docker login does it, where the file is; removing it gives
// the same bytes again.
func TestSetLogin(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"no file": {"", "{\n  \"auths\": {\n    \"reg:5000\": {\n      \"auth\": \"" + auth + "\"\n    }\n  }\n}\n"},
		"beside another, as docker login writes it": {
			"{\n\t\"auths\": {\n\t\t\"other\": {\n\t\t\t\"auth\": \"eDp5\"\n\t\t}\n\t}\n}",
			"{\n\t\"auths\": {\n\t\t\"other\": {\n\t\t\t\"auth\": \"eDp5\"\n\t\t},\n\t\t\"reg:5000\": {\n\t\t\t\"auth\": \"" + auth + "\"\n\t\t}\n\t}\n}"},
		"beside other settings": {
			"{\n\t\"HttpHeaders\": {\n\t\t\"X\": \"y\"\n\t},\n\t\"credHelpers\": {\"gcr.io\": \"gcloud\"}\n}",
			"{\n\t\"HttpHeaders\": {\n\t\t\"X\": \"y\"\n\t},\n\t\"credHelpers\": {\"gcr.io\": \"gcloud\"},\n\t\"auths\": {\n\t\t\"reg:5000\": {\n\t\t\t\"auth\": \"" + auth + "\"\n\t\t}\n\t}\n}"},
		"on one line": {
			`{"auths": {"other":{"auth":"eDp5"}}}`,
			`{"auths": {"other":{"auth":"eDp5"}, "reg:5000": {"auth": "` + auth + `"}}}`},
		"beside names that look like it": {
			`{"auths": {"https://reg:5000":{}, "reg":{}, "REG:5000":{}}}`,
			`{"auths": {"https://reg:5000":{}, "reg":{}, "REG:5000":{}, "reg:5000": {"auth": "` + auth + `"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			after := login(t, c.before, "reg:5000", alice)
			if diff := cmp.Diff(c.after, after); diff != "" {
				t.Fatalf("set (-wanted +got):\n%s", diff)
			}
			if again := login(t, after, "reg:5000", alice); again != after {
				t.Errorf("set again: %s", again)
			}
			if got, ok, err := dockerconf.LoginOf([]byte(after), "reg:5000"); got != alice || !ok || err != nil {
				t.Errorf("read: %+v, %v, %v", got.Username, ok, err)
			}
			before, err := dockerconf.RemoveLogin([]byte(after), "reg:5000")
			if diff := cmp.Diff(c.before, string(before)); diff != "" || err != nil {
				t.Errorf("set and removed: %v (-before +after):\n%s", err, diff)
			}
		})
	}
}

// TestTheOnlyLogin: a file that says nothing once the login is gone is of no use, and a
// control character in a username and no password are a login like any other.
func TestTheOnlyLogin(t *testing.T) {
	odd := dockerconf.Login{Username: "\x01"}
	after := login(t, "{}", "reg:5000", odd)
	if want := `{"auths": {"reg:5000": {"auth": "ATo="}}}`; after != want {
		t.Fatalf("set: %s, want %s", after, want)
	}
	if got, ok, err := dockerconf.LoginOf([]byte(after), "reg:5000"); got != odd || !ok || err != nil {
		t.Errorf("read: %q, %v, %v", got.Username, ok, err)
	}
	if rest, err := dockerconf.RemoveLogin([]byte(after), "reg:5000"); rest != nil || err != nil {
		t.Errorf("removed: %q, %v; want no file", rest, err)
	}
}

func TestReplaceLogin(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"another password": {
			`{"auths": {"reg:5000": {"auth":"eDp5"}, "b": {}}}`,
			`{"auths": {"reg:5000": {"auth": "` + auth + `"}, "b": {}}}`},
		"a token, which Docker would prefer": {
			`{"auths": {"reg:5000": {"auth":"` + auth + `","identitytoken":"t"}}}`,
			`{"auths": {"reg:5000": {"auth": "` + auth + `"}}}`},
		"nothing that can be read": {
			"{\n  \"auths\": {\n    \"reg:5000\": {\n    \"auth\": \"%\"\n}\n  }\n}\n",
			"{\n  \"auths\": {\n    \"reg:5000\": {\n      \"auth\": \"" + auth + "\"\n    }\n  }\n}\n"},
		"null":                 {`{"auths": null}`, `{"auths": {"reg:5000": {"auth": "` + auth + `"}}}`},
		"null for the server":  {`{"auths": {"reg:5000": null}}`, `{"auths": {"reg:5000": {"auth": "` + auth + `"}}}`},
		"auths that are empty": {`{"auths": {}}`, `{"auths": {"reg:5000": {"auth": "` + auth + `"}}}`},
	} {
		if diff := cmp.Diff(c.after, login(t, c.before, "reg:5000", alice)); diff != "" {
			t.Errorf("%s (-wanted +got):\n%s", name, diff)
		}
	}
}

func TestDockerHub(t *testing.T) {
	for _, server := range []string{"docker.io", "index.docker.io"} {
		if got := login(t, "{}", server, alice); got != `{"auths": {"https://index.docker.io/v1/": {"auth": "`+auth+`"}}}` {
			t.Errorf("%s: %s", server, got)
		}
	}
}

func TestLoginOf(t *testing.T) {
	for name, content := range map[string]string{
		"no file": "", "no auths": "{}", "another": `{"auths": {"reg": {"auth": "eDp5"}}}`, "no auth": `{"auths": {"reg:5000": {}}}`, "null": `{"auths": null}`, "null for it": `{"auths": {"reg:5000": null}}`,
	} {
		if got, ok, err := dockerconf.LoginOf([]byte(content), "reg:5000"); ok || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if got, err := dockerconf.RemoveLogin([]byte(content), "reg"); name != "another" && (string(got) != content || err != nil) {
			t.Errorf("%s: removed: %q, %v", name, got, err)
		}
	}
	plain := `{"auths": {"reg:5000": {"username": "alice", "password": "pässwörd:✓"}}}`
	if got, ok, err := dockerconf.LoginOf([]byte(plain), "reg:5000"); got != alice || !ok || err != nil {
		t.Errorf("name and password: %v, %v, %v", got, ok, err)
	}
}

func TestHelper(t *testing.T) {
	for content, wanted := range map[string]string{
		"":                       "",
		"{}":                     "",
		`{"credsStore": "pass"}`: "pass",
		`{"credsStore": null}`:   "",
		`{"credsStore": "pass", "credHelpers": {"reg:5000": "gcloud"}}`: "gcloud",
		`{"credsStore": "pass", "credHelpers": {"reg": "gcloud"}}`:      "pass",
		`{"credHelpers": {"reg": "gcloud"}}`:                            "",
		`{"credsStore": "pass", "credHelpers": {"reg:5000": ""}}`:       "",
	} {
		if got, err := dockerconf.Helper([]byte(content), "reg:5000"); got != wanted || err != nil {
			t.Errorf("%s: %q, %v", content, got, err)
		}
	}
	if got, err := dockerconf.Helper([]byte(`{"credsStore": 1}`), "reg"); err == nil || !strings.Contains(err.Error(), "credsStore is a number") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLoginRefused: and no password in what is said of it.
func TestLoginRefused(t *testing.T) {
	const secret = "SECRET"
	for name, c := range map[string]struct {
		content string
		login   dockerconf.Login
		wanted  string
	}{
		"no JSON":         {`{"auths": {"reg:5000": {"auth": SECRET}}}`, alice, "line 1: invalid character 'S'"},
		"cut off":         {`{"auths": {"reg:5000": {"auth": "SECRET`, alice, "line 1: unexpected end"},
		"a wrong escape":  {`{"auths": {"reg:5000": {"auth": "\SECRET"}}}`, alice, "line 1: invalid character 'S'"},
		"auths":           {"{\n\"auths\": [\"SECRET\"]}", alice, "line 2: auths is a list, and Docker takes only an object"},
		"the entry":       {"{\"auths\": {\n\"reg:5000\": \"SECRET\"}}", alice, "line 2: the login of reg:5000 is a string, and Docker takes only an object"},
		"the entry twice": {"{\"auths\": {\"reg:5000\": {},\n\"reg:5000\": {\"auth\": \"SECRET\"}}}", alice, "line 2: reg:5000 is there a second time"},
		"written Auths":   {`{"Auths": {"reg:5000": {"auth": "SECRET"}}}`, alice, "Auths must be written auths"},
		"no username":     {"{}", dockerconf.Login{Password: secret}, "without a username"},
		"a colon":         {"{}", dockerconf.Login{Username: "a:b", Password: secret}, `username "a:b": it holds a colon`},
		"NUL":             {"{}", dockerconf.Login{Username: "a", Password: secret + "\x00"}, `the login of "a" holds a NUL`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dockerconf.SetLogin([]byte(c.content), "reg:5000", c.login)
			if err == nil || !strings.Contains(err.Error(), c.wanted) || got != nil {
				t.Errorf("%q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("said: %v", err)
			}
		})
	}
	for _, content := range []string{`{"auths": {"reg:5000": {"auth": "SECRET!"}}}`, `{"auths": {"reg:5000": {"auth": "U0VDUkVU"}}}`, `{"auths": {"reg:5000": {"auth": 1, "password": "SECRET"}}}`} {
		if got, ok, err := dockerconf.LoginOf([]byte(content), "reg:5000"); ok || err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, %v", content, got, err)
		}
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if said := fmt.Sprintf(format, dockerconf.Login{Username: "a", Password: secret}); strings.Contains(said, secret) {
			t.Errorf("%s: %s", format, said)
		}
	}
}

func login(t *testing.T, content, server string, l dockerconf.Login) string {
	t.Helper()
	after, err := dockerconf.SetLogin([]byte(content), server, l)
	if err != nil {
		t.Fatal(err)
	}
	return string(after)
}
