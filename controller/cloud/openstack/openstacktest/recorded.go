package openstacktest

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// recorded are answers of a real OpenStack (Zed, as Debian 12 packages it) to a user of
// a project: of a stack with two scaling groups, a storage server, its volume and its
// floating IP, and of one that fails. Tokens, which Keystone gives in a header, are not
// in them.
//
//go:embed recorded
var recorded embed.FS

// recording is one call and its answer. URL is without the scheme.
type recording struct {
	Name, Method, URL string
	Status            int
	Body              json.RawMessage
}

func recordings(t testing.TB) map[string]recording {
	t.Helper()
	all := map[string]recording{}
	paths, err := fs.Glob(recorded, "recorded/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, path := range paths {
		text, err := recorded.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := recording{Name: strings.TrimSuffix(strings.TrimPrefix(path, "recorded/"), ".json")}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[r.Name] = r
	}
	return all
}

var recordedHost = regexp.MustCompile(`http://10\.10\.0\.1:(\d+)`)

// Replay is Keystone's URL of a server that gives the recorded answers to the calls that
// they were recorded for, and 404 to all others. The login is not checked.
func Replay(t testing.TB) string {
	answers := map[string]recording{}
	for name, r := range recordings(t) {
		if !strings.HasSuffix(name, "-unauthorized") && name != "login-refused" {
			answers[key(r.Method, r.URL)] = r
		}
	}
	server := httptest.NewUnstartedServer(nil)
	here := ""
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, known := answers[key(r.Method, "10.10.0.1:"+strings.TrimPrefix(r.URL.Path, "/")+"?"+r.URL.RawQuery)]
		if !known {
			t.Logf("not recorded: %s %s", r.Method, r.URL)
			http.NotFound(w, r)
			return
		}
		if a.Name == "login" {
			w.Header().Set("X-Subject-Token", "token")
		}
		w.WriteHeader(a.Status)
		if string(a.Body) != "null" {
			_, _ = w.Write(recordedHost.ReplaceAll(a.Body, []byte(here+"/$1"))) // the client is gone if that fails
		}
	})
	server.Start()
	here = server.URL
	t.Cleanup(server.Close)
	return here + "/5000/v3"
}

// key is a call with its query in one order.
func key(method, address string) string {
	u, err := url.Parse("http://" + address)
	if err != nil {
		return ""
	}
	return method + " " + u.Host + u.Path + "?" + u.Query().Encode()
}
