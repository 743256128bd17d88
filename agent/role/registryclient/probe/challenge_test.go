package probe

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://auth/token",service="s", Basic realm=x`)
	f.Fuzz(func(_ *testing.T, line string) { parseChallenges(line) }) // it ends, and does not panic
}
