package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const debian12 = "ID=debian\nVERSION_CODENAME=bookworm\n"

// apt itself reads the files; LIST stands for the path of the list of mirrors.
func TestMirrorsOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		osRelease, list, deb822, mirrorList string
		want                                mirrors
		says                                string
	}{
		"one line each": {debian12, "deb http://m.example/debian bookworm main\ndeb http://m.example/debian/ bookworm-updates main contrib\n" +
			"deb http://s.example/debian-security/ bookworm-security main\n", "", "", mirrors{"http://m.example/debian", "http://s.example/debian-security"}, ""},
		"deb822, two suites in one": {debian12, "", "Types: deb deb-src\nURIs: https://m.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n" +
			"Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n# of its own\nTypes: deb\n# a comment between\nURIs: https://s.example/sec\nSuites: bookworm-security\nComponents:\n main\n non-free\n",
			"", mirrors{"https://m.example/debian", "https://s.example/sec"}, ""},
		"a key in the entry": {debian12, "", "Types: deb\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n URIs: http://no.example\n" +
			" -----END PGP PUBLIC KEY BLOCK-----\n", "", mirrors{archive: "http://m.example/debian"}, ""},
		"options, comments, sources": {debian12, "# deb http://old.example/debian bookworm main\ndeb-src http://src.example/debian bookworm main\n" +
			"deb [ arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg ] http://m.example/debian bookworm main # deb http://c.example/debian\n", "", "", mirrors{archive: "http://m.example/debian"}, ""},
		"switched off": {debian12, "deb http://m.example/debian bookworm main\n", "Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: bookworm-updates\nComponents: main\n", "", mirrors{archive: "http://m.example/debian"}, ""},
		"another publisher under the same names": {debian12, "deb [signed-by=/usr/share/keyrings/other.gpg] http://other.example/apt bookworm main\n" +
			"deb http://m.example/debian bookworm main\ndeb http://m.example/debian bookworm-updates main\n", "", "", mirrors{archive: "http://m.example/debian"}, ""},
		"a later release":            {"ID=debian\nVERSION_CODENAME=\"trixie\"\n", "deb http://m.example/debian trixie main\ndeb http://s.example/sec trixie-security main\n", "", "", mirrors{"http://m.example/debian", "http://s.example/sec"}, ""},
		"by the release's status":    {debian12, "deb http://m.example/debian oldstable main\n", "", "", mirrors{archive: "http://m.example/debian"}, ""},
		"a disc before the mirror":   {debian12, "deb cdrom:[Debian GNU/Linux 12]/ bookworm main\ndeb [trusted=yes] file:/srv/m bookworm main\ndeb http://m.example/debian bookworm main\n", "", "", mirrors{archive: "http://m.example/debian"}, ""},
		"a list of mirrors":          {debian12, "deb mirror+file:LIST bookworm main\n", "", "# nearest first\nhttp://near.example/debian/\tpriority:1\nhttp://far.example/debian\n", mirrors{archive: "http://near.example/debian"}, ""},
		"a password":                 {debian12, "deb http://user:word@m.example/debian bookworm main\n", "", "", mirrors{}, "set NODEHITCH_MIRROR"},
		"only components elsewhere":  {debian12, "deb http://m.example/debian bookworm contrib\n", "", "", mirrors{}, "set NODEHITCH_MIRROR"},
		"none":                       {debian12, "", "", "", mirrors{}, "no http or https mirror of Debian's archive among the apt sources of this host: set NODEHITCH_MIRROR"},
		"Ubuntu":                     {"NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_CODENAME=jammy\n", "deb http://u.example/ubuntu jammy main\ndeb http://u.example/ubuntu jammy-updates main\n", "", "", mirrors{}, `this host runs "ubuntu", whose apt sources name no mirror of Debian's archive: set NODEHITCH_MIRROR`},
		"a line that apt refuses":    {debian12, "deb http://m.example/debian\n", "", "", mirrors{}, "asking apt for the sources of this host"},
		"a list that is not there":   {debian12, "deb mirror+file:/no/such/list bookworm main\n", "", "", mirrors{}, "/no/such/list"},
		"a release that is not said": {"ID=debian\n", "deb http://m.example/debian bookworm main\n", "", "", mirrors{archive: "http://m.example/debian"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name, content string) string {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				return path
			}
			list := at("sources.list", strings.ReplaceAll(c.list, "LIST", at("mirrors", c.mirrorList)))
			parts := filepath.Dir(at("parts/own.sources", c.deb822))
			h := aptHost{osRelease: at("os-release", c.osRelease), options: []string{
				"--option=Dir::Etc::sourcelist=" + list, "--option=Dir::Etc::sourceparts=" + parts, "--option=APT::Architecture=amd64",
				// None of what the host itself has installed or downloaded.
				"--option=Dir::State::lists=" + filepath.Dir(at("lists/none", "")), "--option=Dir::State::status=/dev/null", "--option=Dir::Cache=" + filepath.Dir(at("cache/none", "")),
			}}
			got, err := h.mirrors(t.Context(), "bookworm")
			if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %+v, %v; want %+v, an error with %q", got, err, c.want, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "word@") {
				t.Errorf("the error tells a password: %v", err)
			}
		})
	}
}

func TestMirrorsByName(t *testing.T) {
	const signed = "deb [signed-by=" + Keyring + "] "
	archive := []string{signed + "http://m.example/debian bookworm main", signed + "http://m.example/debian bookworm-updates main"}
	for named, want := range map[string][]string{
		"http://m.example/debian/":                        archive,
		"http://m.example/debian https://s.example/sec/":  append(slices.Clone(archive), signed+"https://s.example/sec bookworm-security main"),
		"http://m.example/debian http://s.example http:/": nil,
		"m.example/debian":                                nil,
		"ftp://m.example/debian":                          nil,
		"http://user:word@m.example/debian":               nil,
		" ":                                               nil,
	} {
		t.Setenv(EnvMirror, named)
		got, err := Sources(t.Context(), "bookworm")
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %q, %v", named, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "word@") || !strings.Contains(err.Error(), EnvMirror)) {
			t.Errorf("%q: %v", named, err)
		}
	}
}
