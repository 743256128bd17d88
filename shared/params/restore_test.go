package params_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/params"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

func TestRestoreKeepsSecretsOnlyWhereTheyWere(t *testing.T) {
	for name, test := range map[string]struct{ stored, now, want string }{
		"an object as it was": {
			stored: `{"a":{"user":"u","password":"hunter2"}}`,
			now:    "{ \"b\": [1],\n \"a\":{\"password\" : \"[redacted]\", \"user\":\"u\"}}",
			want:   "{ \"b\": [1],\n \"a\":{\"password\" : \"hunter2\", \"user\":\"u\"}}",
		},
		"two secrets of an object, one of them sent again": {
			stored: `{"a":{"password":"hunter2","token":"hunter3"}}`,
			now:    `{"a":{"password":"[redacted]","token":"hunter3"}}`,
			want:   `{"a":{"password":"hunter2","token":"hunter3"}}`,
		},
		"two secrets of an object, one of them another": {
			stored: `{"a":{"password":"hunter2","token":"hunter3"}}`,
			now:    `{"a":{"password":"[redacted]","token":"other"}}`,
			want:   `{"a":{"password":"[redacted]","token":"other"}}`,
		},
		"another member, deep below": {
			stored: `{"a":{"hosts":[{"name":"h"}],"password":"hunter2"}}`,
			now:    `{"a":{"hosts":[{"name":"i"}],"password":"[redacted]"}}`,
			want:   `{"a":{"hosts":[{"name":"i"}],"password":"[redacted]"}}`,
		},
		"a list in another order": {
			stored: `{"l":[{"server":"a","password":"hunter2"},{"server":"b","password":"hunter3"}]}`,
			now:    `{"l":[{"server":"b","password":"[redacted]"},{"server":"c","password":"new"},{"server":"a","password":"[redacted]"}]}`,
			want:   `{"l":[{"server":"b","password":"hunter3"},{"server":"c","password":"new"},{"server":"a","password":"hunter2"}]}`,
		},
		"another server in the same place": {
			stored: `{"l":[{"server":"a","password":"hunter2"}]}`,
			now:    `{"l":[{"server":"b","password":"[redacted]"}]}`,
			want:   `{"l":[{"server":"b","password":"[redacted]"}]}`,
		},
		"a server that was there twice": {
			stored: `{"l":[{"server":"a","password":"hunter2"},{"server":"a","password":"hunter3"}]}`,
			now:    `{"l":[{"server":"a","password":"[redacted]"}]}`,
			want:   `{"l":[{"server":"a","password":"[redacted]"}]}`,
		},
		"a list without servers": {
			stored: `{"l":[{"name":"a","password":"hunter2"}]}`,
			now:    `{"l":[{"name":"a","password":"[redacted]"}]}`,
			want:   `{"l":[{"name":"a","password":"[redacted]"}]}`,
		},
		"proxies: the rest of the URL": {
			stored: `{"http_proxy":"http://u:hunter2@h:1","https_proxy":"http://u:hunter2@h:1","ftp_proxy":"u:hunter2@h:1"}`,
			now:    `{"http_proxy":"http://[redacted]@h:1","https_proxy":"http://[redacted]@h:2","ftp_proxy":"[redacted]@h:1","no_proxy":"h"}`,
			want:   `{"http_proxy":"http://u:hunter2@h:1","https_proxy":"http://[redacted]@h:2","ftp_proxy":"u:hunter2@h:1","no_proxy":"h"}`,
		},
		"a secret that is no text": {
			stored: `{"credentials":{"key":["hunter2"]},"n":1}`,
			now:    `{"credentials":"[redacted]","n":1}`,
			want:   `{"credentials":{"key":["hunter2"]},"n":1}`,
		},
		"a key": {
			stored: `{"cert":"-----BEGIN PRIVATE KEY-----","n":1}`,
			now:    `{"cert":"[redacted]","n":1.0}`,
			want:   `{"cert":"[redacted]","n":1.0}`,
		},
		"a place without a secret": {
			stored: `{"a":{"user":"u"},"password":"","token":true}`,
			now:    `{"a":{"user":"[redacted]","password":"[redacted]"},"password":"[redacted]","token":"[redacted]"}`,
			want:   `{"a":{"user":"[redacted]","password":"[redacted]"},"password":"[redacted]","token":"[redacted]"}`,
		},
		"a part of a list that is secret": {
			stored: `{"tokens":["hunter2","hunter3"]}`,
			now:    `{"tokens":["[redacted]"]}`,
			want:   `{"tokens":["[redacted]"]}`,
		},
		"another kind of value": {
			stored: `{"a":[{"server":"a","password":"hunter2"}],"b":{"password":"hunter2"}}`,
			now:    `{"a":{"server":"a","password":"[redacted]"},"b":[{"password":"[redacted]"}]}`,
			want:   `{"a":{"server":"a","password":"[redacted]"},"b":[{"password":"[redacted]"}]}`,
		},
		"what is not JSON":      {stored: `{"password":"hunter2"}`, now: `{"password":"[redacted]"`, want: `{"password":"[redacted]"`},
		"what was not JSON":     {stored: `"hunter2`, now: `"[redacted]"`, want: `"[redacted]"`},
		"a lone text":           {stored: `"http://u:hunter2@h"`, now: `"http://[redacted]@h"`, want: `"http://[redacted]@h"`},
		"nothing":               {stored: ``, now: ``, want: ``},
		"what has no secrets":   {stored: `{"a":1}`, now: ` {"a":2} `, want: ` {"a":2} `},
		"a name in two objects": {stored: `{"a":{"password":"hunter2"},"b":{"x":1}}`, now: `{"b":{"password":"[redacted]"}}`, want: `{"b":{"password":"[redacted]"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(params.Restore(json.RawMessage(test.now), json.RawMessage(test.stored))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestRestoreUndoesRedact checks the specifications' bodies as a whole, and for each
// change of one of their values: a secret beside it is not restored.
func TestRestoreUndoesRedact(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	kept, changes := 0, 0
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, broken := jsontree.Parse(body)
		if broken != nil || root.Get("additionalParams") == nil {
			continue
		}
		given := root.Get("additionalParams")
		stored := body[given.Start:given.End]
		shown := params.Redact(stored)
		if got := params.Restore(shown, stored); string(got) != string(stored) {
			t.Errorf("%s: restored is\n%s\nwant\n%s", file, got, stored)
		}
		kept += len(params.Secrets(stored))
		for _, text := range besideSecrets(parsed(t, shown), false) {
			changes++
			now := string(shown[:text.Start]) + `"changed"` + string(shown[text.End:])
			left := strings.Count(string(params.Restore([]byte(now), stored)), params.Redacted)
			if left == 0 {
				t.Errorf("%s: every secret is restored though %s is another", file, shown[text.Start:text.End])
			}
		}
	}
	if kept < 5 || changes < 5 {
		t.Errorf("%d secrets were restored, %d changes refused", kept, changes)
	}
}

func parsed(t *testing.T, text []byte) *jsontree.Node {
	t.Helper()
	n, broken := jsontree.Parse(text)
	if broken != nil {
		t.Fatal(broken)
	}
	return n
}

// besideSecrets are the texts in the objects that have a placeholder for a whole value, and below.
func besideSecrets(n *jsontree.Node, beside bool) (texts []*jsontree.Node) {
	for _, m := range n.Members {
		beside = beside || m.Value.Text == params.Redacted
	}
	if n.Kind == jsontree.String && beside && n.Text != params.Redacted {
		return []*jsontree.Node{n}
	}
	for _, item := range n.Items {
		texts = append(texts, besideSecrets(item, beside)...)
	}
	for _, m := range n.Members {
		texts = append(texts, besideSecrets(m.Value, beside)...)
	}
	return texts
}
