package dockerconf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
)

// space is white space as people leave it between the marks of JSON.
var space = rapid.SampledFrom([]string{"", "", " ", "\n", "\n  ", "\n\t", "\r\n    ", " \n"})

// object is the text of an object with these members, in any layout.
func object(t *rapid.T, members ...string) string {
	var b strings.Builder
	b.WriteString("{")
	for i, m := range members {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(space.Draw(t, "before") + m + space.Draw(t, "after"))
	}
	if len(members) == 0 {
		b.WriteString(space.Draw(t, "within"))
	}
	return space.Draw(t, "first") + b.String() + "}" + space.Draw(t, "last")
}

// foreign are some members that are not ours, with names of their own.
func foreign(t *rapid.T) []string {
	var members []string
	for i, v := range rapid.SliceOfN(rapid.SampledFrom([]string{
		"1", "-1.50e+02", "true", "null", `"\u00e9\/<>&"`, "[]", "[ 1,\n2 ]", "{ }", `{"insecure-registries": ["reg"], "auths": 1}`,
	}), 0, 3).Draw(t, "foreign") {
		members = append(members, fmt.Sprintf("\"key %d\"%s:%s%s", i, space.Draw(t, "colon"), space.Draw(t, "value"), v))
	}
	return members
}

// TestRandomInsecure: what is added and removed in any layout leaves the same bytes.
func TestRandomInsecure(t *testing.T) {
	owner := rapid.SampledFrom([]string{"a", "b", "a:5000", "10.0.0.0/8", "[fd00::1]:5000", "<&>"})
	server := rapid.SampledFrom([]string{"ours", "ours:5000", "[fd00::2]:5000", "<&>.ours"})
	rapid.Check(t, func(t *rapid.T) {
		members := foreign(t)
		owners := rapid.SliceOfNDistinct(owner, 0, 4, rapid.ID).Draw(t, "owner's")
		if len(owners) > 0 {
			texts := make([]string, len(owners))
			for i, o := range owners {
				quoted, _ := json.Marshal(o)
				texts[i] = string(quoted)
			}
			list := object(t, texts...)
			list = strings.Replace(list, "{", "[", 1)
			at := strings.LastIndex(list, "}")
			members = append(members, `"insecure-registries":`+list[:at]+"]"+list[at+1:])
		}
		members = rapid.Permutation(members).Draw(t, "members")
		content := object(t, members...)
		ours := rapid.SliceOfN(server, 1, 3).Draw(t, "ours")

		after, err := dockerconf.AddInsecure([]byte(content), ours...)
		if err != nil {
			t.Fatalf("%v in %q", err, content)
		}
		entries, err := dockerconf.Insecure(after)
		if err != nil || !reflect.DeepEqual(entries[:len(owners)], append([]string{}, owners...)) {
			t.Fatalf("entries %q, %v", entries, err)
		}
		same(t, content, after, "insecure-registries")
		rest, err := dockerconf.RemoveInsecure(after, ours...)
		if err != nil {
			t.Fatal(err)
		}
		if len(owners) == 0 {
			if rest, err = dockerconf.DropInsecure(rest); err != nil {
				t.Fatal(err)
			}
		}
		if string(rest) != content && (rest != nil || len(members) > 0) {
			t.Fatalf("\n-- before\n%q\n-- added\n%q\n-- removed\n%q", content, after, rest)
		}
	})
}

// TestRandomLogin: the same of logins.
func TestRandomLogin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := foreign(t)
		others := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "reg", "https://reg:5000", "reg:50000"}), 0, 3, rapid.ID).Draw(t, "others")
		if len(others) > 0 {
			texts := make([]string, len(others))
			for i, o := range others {
				texts[i] = `"` + o + `": {"auth":"eDp5"}`
			}
			members = append(members, `"auths":`+object(t, texts...))
		}
		content := object(t, rapid.Permutation(members).Draw(t, "members")...)
		l := dockerconf.Login{
			Username: rapid.StringMatching(`[^:\x00]+`).Draw(t, "username"),
			Password: rapid.StringMatching(`[^\x00]*`).Draw(t, "password"),
		}
		after, err := dockerconf.SetLogin([]byte(content), "reg:5000", l)
		if err != nil {
			t.Fatalf("%v in %q", err, content)
		}
		if got, ok, err := dockerconf.LoginOf(after, "reg:5000"); got != l || !ok || err != nil {
			t.Fatalf("read %q for %q, %v", got.Password, l.Password, err)
		}
		same(t, content, after, "auths")
		if again, err := dockerconf.SetLogin(after, "reg:5000", l); err != nil || !bytes.Equal(again, after) {
			t.Fatalf("set again: %v %q", err, again)
		}
		rest, err := dockerconf.RemoveLogin(after, "reg:5000")
		if err != nil || string(rest) != content && (rest != nil || len(members) > 0) {
			t.Fatalf("%v\n-- before\n%q\n-- set\n%q\n-- removed\n%q", err, content, after, rest)
		}
	})
}

// same says that all members but one are as they were.
func same(t *rapid.T, before string, after []byte, but string) {
	var old, changed map[string]any
	if json.Unmarshal([]byte(before), &old) != nil || json.Unmarshal(after, &changed) != nil {
		t.Fatalf("no JSON: %q", after)
	}
	delete(old, but)
	delete(changed, but)
	if !reflect.DeepEqual(old, changed) {
		t.Fatalf("\n-- before\n%q\n-- after\n%q", before, after)
	}
}

// FuzzDaemon: what is taken has the server after the edit, and not after the other.
func FuzzDaemon(f *testing.F) {
	f.Add([]byte("{\n  \"insecure-registries\": [\n    \"a\"\n  ],\n  \"mtu\": 1\n}\n"), "reg:5000")
	f.Add([]byte(`{"insecure-registries":null}`), "a")
	f.Add([]byte("{// no\n}"), "a")
	f.Fuzz(func(t *testing.T, content []byte, server string) {
		after, err := dockerconf.AddInsecure(content, server)
		if err != nil {
			return
		}
		if again, err := dockerconf.AddInsecure(after, server); err != nil || !bytes.Equal(again, after) {
			t.Fatalf("%v: %q, then %q", err, after, again)
		}
		rest, err := dockerconf.RemoveInsecure(after, server)
		if err != nil {
			t.Fatalf("%v: %q", err, after)
		}
		entries, err := dockerconf.Insecure(rest)
		if _, covered := dockerconf.Covered(entries, server, nil); err != nil || covered {
			t.Fatalf("%v: %q", err, rest)
		}
		if _, err := dockerconf.DropInsecure(rest); err != nil {
			t.Fatalf("%v: %q", err, rest)
		}
	})
}

// FuzzLogin: what is taken has the login after the edit, and not after the other.
func FuzzLogin(f *testing.F) {
	f.Add([]byte("{\n\t\"auths\": {\n\t\t\"a\": {\n\t\t\t\"auth\": \"eDp5\"\n\t\t}\n\t}\n}"), "reg:5000", "alice", "pässwörd")
	f.Add([]byte(`{"auths":{"reg":{}},"credsStore":"pass"}`), "reg", "a", "")
	f.Fuzz(func(t *testing.T, content []byte, server, username, password string) {
		l := dockerconf.Login{Username: username, Password: password}
		after, err := dockerconf.SetLogin(content, server, l)
		if err != nil {
			return
		}
		if got, ok, err := dockerconf.LoginOf(after, server); got != l || !ok || err != nil {
			t.Fatalf("%q, %v, %v: %q", got.Password, ok, err, after)
		}
		rest, err := dockerconf.RemoveLogin(after, server)
		if err != nil {
			t.Fatalf("%v: %q", err, after)
		}
		if _, ok, err := dockerconf.LoginOf(rest, server); ok || err != nil {
			t.Fatalf("%v: %q", err, rest)
		}
		_, _ = dockerconf.Helper(after, server)
	})
}
