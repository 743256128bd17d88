package query_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/hitchctl/query"
)

type server struct {
	Name  string `json:"name"`
	Disks int    `json:"disks"`
	Seen  string `json:"seen,omitempty"`
	State string `json:"state"`
}

var servers = []server{
	{"c", 10, "2030-01-01T00:00:00.5Z", "up"},
	{"a", 9, "", "down"},
	{"b", 10000000, "2030-01-01T00:00:00.25Z", "up"},
}

func TestPrint(t *testing.T) {
	for template, want := range map[string]string{
		"{.items[*].name}": "c a b",
		`{range .items[*]}{.name}={.disks}{"\n"}{end}`: "c=10\na=9\nb=10000000\n",
		"{.items[0]}":                       `{"disks":10,"name":"c","seen":"2030-01-01T00:00:00.5Z","state":"up"}`,
		"items[1].disks":                    "9",
		".items[1].seen":                    "",
		"{.nothing.of.it}":                  "",
		`{.items[?(@.state=="down")].name}`: "a",
	} {
		path, err := query.ParsePath(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		var got bytes.Buffer
		if err := path.Print(&got, map[string]any{"items": servers}); err != nil || got.String() != want {
			t.Errorf("%s: %q, %v; want %q", template, &got, err, want)
		}
	}
	for _, broken := range []string{"{.items[}", "{.items"} {
		if _, err := query.ParsePath(broken); err == nil || !strings.Contains(err.Error(), "is no JSONPath") {
			t.Errorf("%s: %v", broken, err)
		}
	}
}

func TestSort(t *testing.T) {
	for by, want := range map[string]string{
		"name": "a b c", "{.disks}": "a c b", ".seen": "a b c", "state": "a c b",
	} {
		list := append([]server(nil), servers...)
		path, err := query.ParsePath(by)
		if err == nil {
			err = query.Sort("server", list, path)
		}
		var got []string
		for _, s := range list {
			got = append(got, s.Name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("by %s: %v, %v; want %s", by, got, err, want)
		}
	}
	for by, want := range map[string]string{
		"nam": "no server has nam; `hitchctl get servers -o json`", ".metadata.nam": "no server has .metadata.nam; `hitchctl get servers",
		".metadata.name": "no server has .metadata.name; did you mean `--sort-by name`?", "{.metadata.seen}": "did you mean `--sort-by seen`?",
	} {
		path, _ := query.ParsePath(by)
		if err := query.Sort("server", servers, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("by %s, which none has: %v, want %q", by, err, want)
		}
	}
	path, _ := query.ParsePath("name")
	if err := query.Sort("server", []server{}, path); err != nil {
		t.Errorf("nothing: %v", err)
	}
	path, _ = query.ParsePath("seen")
	if err := query.Sort("server", []server{{Name: "b"}, {Name: "a"}}, path); err != nil {
		t.Errorf("what none has yet: %v", err)
	}
}

var fields = []query.Field[server]{
	{Name: "state", Values: []string{"up", "down"}, Of: func(s server) string { return s.State }},
	{Name: "name", Values: []string{"a", "b", "c"}, Of: func(s server) string { return s.Name }},
}

func TestSelectors(t *testing.T) {
	for text, want := range map[string][]string{
		"": {"c", "a", "b"}, "state=up": {"c", "b"}, "state==up": {"c", "b"}, "state!=up": {"a"},
		"state=up,name!=b": {"c"}, " state = down ": {"a"}, "state=up,state=down": nil,
	} {
		s, err := query.ParseSelector(text, fields, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, server := range servers {
			if s.Matches(server) {
				got = append(got, server.Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"state": "expected name=value", "stat=up": "did you mean state?", "state=dwon": "expected up, down", "colour=red": "expected state, name",
		"state=up,": "expected name=value", "name": "expected name=value",
	} {
		if _, err := query.ParseSelector(text, fields, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
