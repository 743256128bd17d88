package dockerconf_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
)

// TestAddInsecure: the new entries are laid out as the file is, and taking them away
// gives the same bytes again.
func TestAddInsecure(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"in a file of four spaces": {
			"{\n    \"log-driver\": \"journald\",\n    \"live-restore\": true\n}\n",
			"{\n    \"log-driver\": \"journald\",\n    \"live-restore\": true,\n    \"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]\n}\n"},
		"in a file of tabs, without a newline at the end": {
			"{\n\t\"mtu\": 1450\n}",
			"{\n\t\"mtu\": 1450,\n\t\"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]\n}"},
		"CRLF": {
			"{\r\n  \"mtu\": 1450\r\n}\r\n",
			"{\r\n  \"mtu\": 1450,\r\n  \"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]\r\n}\r\n"},
		"on one line": {
			`{"mtu":1450}`,
			`{"mtu":1450, "insecure-registries": ["10.10.0.2:5000", "reg"]}`},
		"on one line, with spaces": {
			`{ "mtu":1450 , "debug": true }`,
			`{ "mtu":1450 , "debug": true, "insecure-registries": ["10.10.0.2:5000", "reg"] }`},
		"nothing in it":        {"{}", `{"insecure-registries": ["10.10.0.2:5000", "reg"]}`},
		"a line between, CRLF": {"{\r\n}", "{\r\n  \"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]\r\n}"},
		"a line between":       {"{\n}\n", "{\n  \"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]\n}\n"},
		"commas at the front":  {"{ \"a\": 1\n, \"b\": 2\n}", "{ \"a\": 1\n, \"b\": 2, \"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]\n}"},
		"after an owner's":     {`{"insecure-registries": ["mine"]}`, `{"insecure-registries": ["mine", "10.10.0.2:5000", "reg"]}`},
		"after owner's, tight": {`{"insecure-registries":["a","b"]}`, `{"insecure-registries":["a","b","10.10.0.2:5000","reg"]}`},
		"after owner's, each on a line": {
			"{\n  \"insecure-registries\": [\n    \"a\",\n    \"b\"\n  ],\n  \"mtu\": 1\n}\n",
			"{\n  \"insecure-registries\": [\n    \"a\",\n    \"b\",\n    \"10.10.0.2:5000\",\n    \"reg\"\n  ],\n  \"mtu\": 1\n}\n"},
		"after an owner's, on a line": {
			"{\n  \"insecure-registries\": [\n    \"a\"\n  ]\n}\n",
			"{\n  \"insecure-registries\": [\n    \"a\",\n    \"10.10.0.2:5000\",\n    \"reg\"\n  ]\n}\n"},
		"numbers and letters as they are": {
			"{\"a\": 1.50e+02, \"b\": \"\\u00e9<\\/\"}",
			"{\"a\": 1.50e+02, \"b\": \"\\u00e9<\\/\", \"insecure-registries\": [\"10.10.0.2:5000\", \"reg\"]}"},
	} {
		t.Run(name, func(t *testing.T) {
			after := add(t, c.before, "10.10.0.2:5000", "reg", "reg")
			if diff := cmp.Diff(c.after, after); diff != "" {
				t.Fatalf("added (-wanted +got):\n%s", diff)
			}
			if again := add(t, after, "reg", "10.10.0.2:5000"); again != after {
				t.Errorf("added again: %s", again)
			}
			if diff := cmp.Diff(orNone(c.before), removed(t, after, "10.10.0.2:5000", "reg")); diff != "" {
				t.Errorf("added and removed (-before +after):\n%s", diff)
			}
		})
	}
}

// orNone: of a file without settings nothing is left.
func orNone(content string) string {
	if strings.Join(strings.Fields(content), "") == "{}" {
		return ""
	}
	return content
}

func TestNewDaemonFile(t *testing.T) {
	for _, content := range []string{"", "\n", " \n\t"} {
		if got := add(t, content, "reg"); got != "{\n  \"insecure-registries\": [\"reg\"]\n}\n" {
			t.Errorf("%q: %s", content, got)
		}
		if got, err := dockerconf.RemoveInsecure([]byte(content), "reg"); string(got) != content || err != nil {
			t.Errorf("%q: nothing to remove: %q, %v", content, got, err)
		}
		if got, err := dockerconf.DropInsecure([]byte(content)); got != nil || err != nil {
			t.Errorf("%q: nothing to drop: %q, %v", content, got, err)
		}
	}
	if got := add(t, "{\"insecure-registries\": null}", "reg"); got != "{\"insecure-registries\": [\"reg\"]}" {
		t.Errorf("in place of null: %s", got)
	}
}

// TestRemoveInsecure: first the list, which the engine takes over at its reload, then
// the key of an empty one.
func TestRemoveInsecure(t *testing.T) {
	for name, c := range map[string]struct{ before, removed, dropped string }{
		"the last one": {`{"insecure-registries": ["reg"]}`, `{"insecure-registries": []}`, ""},
		"the last one of a file": {
			"{\n  \"mtu\": 1,\n  \"insecure-registries\": [\n    \"reg\"\n  ]\n}\n",
			"{\n  \"mtu\": 1,\n  \"insecure-registries\": [\n  ]\n}\n", "{\n  \"mtu\": 1\n}\n"},
		"the first":                            {`{"insecure-registries": ["reg", "b"]}`, `{"insecure-registries": ["b"]}`, `{"insecure-registries": ["b"]}`},
		"in the middle":                        {`{"insecure-registries": ["a", "reg", "b"]}`, `{"insecure-registries": ["a", "b"]}`, `{"insecure-registries": ["a", "b"]}`},
		"twice, with a scheme":                 {`{"insecure-registries": ["http://reg", "b", "reg"]}`, `{"insecure-registries": ["b"]}`, `{"insecure-registries": ["b"]}`},
		"not one that begins so":               {`{"insecure-registries": ["reg:5000", "REG", "10.0.0.0/8"]}`, `{"insecure-registries": ["reg:5000", "REG", "10.0.0.0/8"]}`, `{"insecure-registries": ["reg:5000", "REG", "10.0.0.0/8"]}`},
		"the last, commas apart":               {`{"insecure-registries": ["a" , "reg"]}`, `{"insecure-registries": ["a"]}`, `{"insecure-registries": ["a"]}`},
		"before other keys":                    {`{"insecure-registries": ["reg"], "mtu": 1}`, `{"insecure-registries": [], "mtu": 1}`, `{"mtu": 1}`},
		"no list":                              {`{"mtu": 1}`, `{"mtu": 1}`, `{"mtu": 1}`},
		"null":                                 {`{"insecure-registries": null}`, `{"insecure-registries": null}`, ""},
		"an object of the same name elsewhere": {`{"a": {"insecure-registries": ["reg"]}}`, `{"a": {"insecure-registries": ["reg"]}}`, `{"a": {"insecure-registries": ["reg"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dockerconf.RemoveInsecure([]byte(c.before), "reg")
			if diff := cmp.Diff(c.removed, string(got)); diff != "" || err != nil {
				t.Fatalf("%v (-wanted +got):\n%s", err, diff)
			}
			dropped, err := dockerconf.DropInsecure(got)
			if diff := cmp.Diff(c.dropped, string(dropped)); diff != "" || err != nil || (dropped == nil) != (c.dropped == "") {
				t.Errorf("dropped: %v (-wanted +got):\n%s", err, diff)
			}
		})
	}
}

// TestDaemonRefused: what the engine does not start with, or does not take as it looks.
func TestDaemonRefused(t *testing.T) {
	for name, c := range map[string]struct{ content, wanted string }{
		"a comment":         {"{\n  // mine\n}\n", "line 2: invalid character '/'"},
		"a trailing comma":  {"{\n  \"mtu\": 1,\n}\n", "line 3: invalid character '}'"},
		"a line in a word":  {"{\"a\": \"x\n\"}", "line 1: invalid character '\\n'"},
		"cut off":           {"{\n  \"mtu\": 1", "line 2: unexpected end"},
		"two values":        {"{}\n{}\n", "line 2: invalid character '{'"},
		"a list":            {"[]", "line 1: the file is a list, and Docker takes only an object"},
		"null":              {"null", "line 1: the file is null"},
		"a BOM":             {"\xef\xbb\xbf{}", "byte order mark"},
		"Latin-1":           {"{\"a\": \"\xe9\"}", "not in UTF-8"},
		"UTF-16":            {"\xff\xfe{\x00}\x00", "not in UTF-8"},
		"the key twice":     {"{\"insecure-registries\": [],\n\"insecure-registries\": []}", "line 2: insecure-registries is there a second time"},
		"the key otherwise": {"{\"Insecure-Registries\": []}", "line 1: Insecure-Registries must be written insecure-registries"},
		"a string":          {"{\n\"insecure-registries\": \"reg\"}", "line 2: insecure-registries is a string, and Docker takes only a list of strings"},
		"a number in it":    {"{\"insecure-registries\": [\"a\",\n5000]}", "line 2: insecure-registries[1] is a number"},
		"too deep":          {strings.Repeat("[", 100000), "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			edits := map[string]func([]byte) ([]byte, error){
				"add":    func(content []byte) ([]byte, error) { return dockerconf.AddInsecure(content, "reg") },
				"remove": func(content []byte) ([]byte, error) { return dockerconf.RemoveInsecure(content, "reg") },
				"drop":   dockerconf.DropInsecure,
				"read": func(content []byte) ([]byte, error) {
					entries, err := dockerconf.Insecure(content)
					return []byte(strings.Join(entries, "")), err
				},
			}
			for what, f := range edits {
				if got, err := f([]byte(c.content)); err == nil || !strings.Contains(err.Error(), c.wanted) || len(got) > 0 {
					t.Errorf("%s: %q, %v", what, got, err)
				}
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	for _, server := range []string{"", "http://reg", "10.0.0.0/8", "reg/path", "a b", "a\n", "\xff"} {
		if got, err := dockerconf.AddInsecure([]byte("{}"), "reg", server); err == nil || got != nil {
			t.Errorf("insecure %q: %s", server, got)
		}
		if got, err := dockerconf.SetLogin([]byte("{}"), server, alice); err == nil || got != nil {
			t.Errorf("login of %q: %s", server, got)
		}
	}
}

func TestCovered(t *testing.T) {
	entries := []string{"reg", "HTTP://other:5000", "10.10.0.0/24", "fd00::/64", "no/cidr"}
	for name, c := range map[string]struct {
		server, address, wanted string
	}{
		"by name":                           {"reg", "192.0.2.1", "reg"},
		"a port is of the name":             {"reg:5000", "192.0.2.1", ""},
		"letters are":                       {"REG", "192.0.2.1", ""},
		"by name, with a scheme":            {"other:5000", "", "HTTP://other:5000"},
		"by network":                        {"10.10.0.2:5000", "10.10.0.2", "10.10.0.0/24"},
		"by network, what it resolves to":   {"storage:5000", "10.10.0.2", "10.10.0.0/24"},
		"beside the network":                {"10.10.1.2:5000", "10.10.1.2", ""},
		"by network, IPv6":                  {"[fd00::2]:5000", "fd00::2", "fd00::/64"},
		"by network, IPv4 in the form of 6": {"x", "::ffff:10.10.0.2", "10.10.0.0/24"},
		"loopback":                          {"localhost:5000", "127.0.0.1", "127.0.0.0/8"},
		"loopback, IPv6":                    {"[::1]:5000", "::1", ""},
		"nothing known of it":               {"storage:5000", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var addresses []netip.Addr
			if c.address != "" {
				addresses = append(addresses, netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr(c.address))
			}
			if by, ok := dockerconf.Covered(entries, c.server, addresses); by != c.wanted || ok != (c.wanted != "") {
				t.Errorf("by %q, %v", by, ok)
			}
		})
	}
}

func add(t *testing.T, content string, servers ...string) string {
	t.Helper()
	after, err := dockerconf.AddInsecure([]byte(content), servers...)
	if err != nil {
		t.Fatal(err)
	}
	return string(after)
}

// removed is the content after both steps; "" is none.
func removed(t *testing.T, content string, servers ...string) string {
	t.Helper()
	rest, err := dockerconf.RemoveInsecure([]byte(content), servers...)
	if err != nil {
		t.Fatal(err)
	}
	if rest, err = dockerconf.DropInsecure(rest); err != nil {
		t.Fatal(err)
	}
	return string(rest)
}
