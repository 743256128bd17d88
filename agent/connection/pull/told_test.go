package pull

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestAnAnswerTellsWhichAgentIsWanted(t *testing.T) {
	got, err := answered(304, "", "Nodehitch-Agent-Version", "v1.2.3-rc.1+deb", "Nodehitch-Agent-Sha256", digest, "Nodehitch-Agent-Size", "1048576")
	want := &api.WantedAgent{Version: "v1.2.3-rc.1+deb", SHA256: digest, SizeBytes: 1 << 20}
	if diff := cmp.Diff(want, got.Wanted); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for name, h := range map[string][3]string{
		"nothing":            {"", "", ""},
		"no version":         {"", digest, "1"},
		"no digest":          {"v1", "", "1"},
		"no size":            {"v1", digest, ""},
		"a long version":     {strings.Repeat("v", 65), digest, "1"},
		"a version as text":  {"v1 \x1b[31m", digest, "1"},
		"a digest in cases":  {"v1", strings.ToUpper(digest), "1"},
		"a short digest":     {"v1", digest[1:], "1"},
		"an empty agent":     {"v1", digest, "0"},
		"a negative size":    {"v1", digest, "-1"},
		"more than there is": {"v1", digest, fmt.Sprint(maxAgent + 1)},
		"a size of words":    {"v1", digest, "1 MiB"},
	} {
		got, err := answered(304, "", "Nodehitch-Agent-Version", h[0], "Nodehitch-Agent-Sha256", h[1], "Nodehitch-Agent-Size", h[2])
		if err != nil || got.Wanted != nil {
			t.Errorf("%s: %+v, %v", name, got.Wanted, err)
		}
	}
}

func TestAnAnswerTellsWhereElseTheControllerIs(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("https://c%d.example", i))
	}
	for header, want := range map[string][]string{
		"": nil,
		"https://a.example:8443 https://[2001:db8::1]":     {"https://a.example:8443", "https://[2001:db8::1]"},
		"https://A.example/ https://a.example":             {"https://a.example"},
		"http://a https://u:p@b https://c/v1 https://d?x=": nil,
		"https://a/../b https:c https://:8443 ftp://d #":   nil,
		strings.Join(many, " "):                            many[:api.MaxControllerURLs],
	} {
		got, err := answered(304, "", "Nodehitch-Controller-Urls", header)
		if err != nil || !slices.Equal(got.ControllerURLs, want) {
			t.Errorf("%q: %q, %v; want %q", header, got.ControllerURLs, err, want)
		}
	}
}
