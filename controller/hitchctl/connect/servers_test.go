package connect_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/hitchctl/connect"
)

func TestCommasBetweenServers(t *testing.T) {
	for given, want := range map[connect.Servers][]string{
		"https://a:8443":                  {"https://a:8443"},
		"https://a:8443, https://b":       {"https://a:8443", "https://b"},
		"unix:///run/a,b/socket":          {"unix:///run/a,b/socket"},
		"unix:///run/socket,https://b":    {"unix:///run/socket", "https://b"},
		"https://a,":                      {"https://a", ""},
		"unix:///run/a,unix:///run/b,c,d": {"unix:///run/a", "unix:///run/b", "c", "d"},
	} {
		if got := given.List(); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", given, got, want)
		}
	}
	if err := connect.Servers("unix:///run/a,b/socket").Check("--server"); err != nil {
		t.Error(err)
	}
}
