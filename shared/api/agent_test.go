package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAnAgentSaysWhatItUnderstands(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		want   api.Agent
	}{
		"this build":         {api.ThisAgent("v1.2.3-4-gabcdef0-dirty").Header(), api.ThisAgent("v1.2.3-4-gabcdef0-dirty")},
		"in any order":       {`v2; sections="storage proxy  proxy"`, api.Agent{Version: "v2", Sections: []string{"proxy", "storage"}}},
		"nothing at all":     {`v2; sections=""`, api.Agent{Version: "v2", Sections: []string{}}},
		"of a newer agent":   {`v2; mood="a,b=c;d"; sections="timeSync"; os=""`, api.Agent{Version: "v2", Sections: []string{"timeSync"}}},
		"an architecture":    {`v2; sections="proxy"; architecture="arm64"`, api.Agent{Version: "v2", Sections: []string{"proxy"}, Architecture: "arm64"}},
		"an unusual version": {api.Agent{Version: "1.0 \"é\"", Sections: []string{"proxy"}}.Header(), api.Agent{Version: "1.0____", Sections: []string{"proxy"}}},
		"no version":         {api.Agent{}.Header(), api.Agent{Version: "unknown", Sections: []string{}}},
		"a long version":     {api.Agent{Version: strings.Repeat("v", 99)}.Header(), api.Agent{Version: strings.Repeat("v", 64), Sections: []string{}}},
	} {
		got, err := api.ParseAgent(c.header)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %q: %v\n%s", name, c.header, err, diff)
		}
	}
}

func TestWhatNoAgentSays(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("s%d", i)
	}
	for name, header := range map[string]string{
		"nothing":             "",
		"no sections":         "v1",
		"another parameter":   `v1; version="2"`,
		"twice":               `v1; sections="proxy"; sections="storage"`,
		"not quoted":          `v1; sections=proxy`,
		"a path":              `v1; sections="proxy"; architecture="../amd64"`,
		"not closed":          `v1; sections="proxy`,
		"more after it":       `v1; sections="proxy" storage`,
		"a line":              "v1; sections=\"proxy\nstorage\"",
		"a control character": "v1; sections=\"\x1b[31m\"",
		"not ASCII":           `v1; sections="próxy"`,
		"no name":             `v1; sections="proxy,storage"`,
		"a capital":           `v1; sections="Proxy"`,
		"a long name":         `v1; sections="` + strings.Repeat("a", 65) + `"`,
		"a long version":      strings.Repeat("v", 65) + `; sections="proxy"`,
		"no version":          `; sections="proxy"`,
		"two headers":         `v1; sections="proxy", v1; sections="proxy"`,
		"too many":            `v1; sections="` + strings.Join(many, " ") + `"`,
		"too long":            `v1; sections="proxy"; x="` + strings.Repeat("a", 2048) + `"`,
	} {
		got, err := api.ParseAgent(header)
		if err == nil {
			t.Errorf("%s: %.80q is read as %+v", name, header, got)
		}
	}
}

// The set of the first release is what every agent without the header understands, for ever.
func TestTheFirstSectionsStay(t *testing.T) {
	want := []string{"nfsClient", "persistentVolumes", "proxy", "registries", "registry", "storage"}
	if diff := cmp.Diff(want, api.FirstAgent().Sections); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, section := range want {
		if !api.ThisAgent("v1").Understands(section) {
			t.Errorf("this build does not know %s any more", section)
		}
	}
	if !api.ThisAgent("v1").UnderstandsAll() || (api.Agent{Sections: []string{"proxy"}}).UnderstandsAll() {
		t.Error("an agent of this build understands all, and one that understands proxy alone does not")
	}
}

func TestTheLongestTextsOfAStatusAreTheSpecifications(t *testing.T) {
	for name, most := range map[string]int{"message": api.LongestMessage, "caCertificate": api.LongestCACertificate} {
		if want := fmt.Sprintf("%s: {type: string, maxLength: %d,", name, most); !strings.Contains(string(api.OpenAPI), want) {
			t.Errorf("the specification has no %s", want)
		}
	}
}
