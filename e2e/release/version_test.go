package release

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

var (
	released = regexp.MustCompile(`^\d+\.\d+\.\d+(~rc\.\d+)?$`)
	section  = regexp.MustCompile(`(?m)^## (\S+) - (\S+)$`)
)

// tag is the release that packages are of, "" if they are of a build between two.
func tag(version string) string {
	if !released.MatchString(version) {
		return ""
	}
	return "v" + strings.Replace(version, "~", "-", 1)
}

// announced fails if packages of a release are not of the newest section of the changelog, or
// if that has no date.
func announced(version, changelog string) error {
	newest := section.FindStringSubmatch(changelog)
	if want := tag(version); want == "" || newest != nil && newest[1] == want && newest[2] != "unreleased" {
		return nil
	}
	return fmt.Errorf("the packages are %s, and the newest section of CHANGELOG.md is %q; expected that version with a date", tag(version), newest)
}

// A release is published with a changelog that has it.
func TestTheChangelogHasTheRelease(t *testing.T) {
	c := results.Begin(t, suite, "changelog", "packages of a release are of the newest section of CHANGELOG.md, which has a date; other builds are of none")
	const text = "# Changelog\n\n## v0.2.0-rc.1 - 2026-03-02\n- Two.\n\n## v0.1.0 - 2026-02-01\n- One.\n"
	for version, ok := range map[string]bool{"0.2.0~rc.1": true, "0.1.0": false, "0.2.0": false, "0.2.0~rc.1+3.g784fea1": true, "0.0.0~20260102030405.784fea1": true} {
		if err := announced(version, text); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
		if err := announced(version, strings.Replace(text, "2026-03-02", "unreleased", 1)); (err == nil) != (ok && tag(version) == "") {
			t.Errorf("%s, which has no date: %v", version, err)
		}
	}
	r := built(t)
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := announced(r.version, string(changelog)); err != nil {
		t.Error(err)
	}
	c.Figure("version", "%s", r.version)
}

// What runs says the same version as what it came in.
func TestVersions(t *testing.T) {
	c := results.Begin(t, suite, "versions", "all programs say one version, and rpm packages, their changelogs and Python's metadata are of it too")
	r := built(t)
	said := map[string]bool{}
	for _, name := range []string{"nodehitch-agent", "nodehitch-controller", "hitchctl"} {
		program := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(program, file(t, r.deb(name, "amd64"), "/usr/bin/"+name), 0o700); err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(run(t, program, "--version"))
		said[words[len(words)-1]] = true
	}
	if want := tag(r.version); len(said) != 1 || want != "" && !said[want] {
		t.Errorf("the programs of %s say that they are %v", r.version, said)
	}
	for _, rpm := range r.packages(t, "rpm") {
		if is := run(t, "rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE}", rpm); is != r.version+"-1" {
			t.Errorf("%s has the version %s", filepath.Base(rpm), is)
		}
		if first, _, _ := strings.Cut(run(t, "rpm", "-qp", "--changelog", rpm), "\n"); !strings.HasSuffix(first, " "+r.version+"-1") {
			t.Errorf("%s: its changelog begins with %q", filepath.Base(rpm), first)
		}
	}
	metadata := 0
	eachFile(t, r.deb("python3-nodehitch-tacker", "all"), func(h *tar.Header, body io.Reader) {
		if filepath.Base(h.Name) != "METADATA" {
			return
		}
		metadata++
		text, err := io.ReadAll(body)
		want := "\nVersion: " + strings.Replace(r.version, "~rc.", "rc", 1) + "\n"
		if err != nil || tag(r.version) != "" && !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v\n%s", h.Name, want, err, text)
		}
	})
	if metadata != 1 {
		t.Errorf("Python finds the metadata of %d versions", metadata)
	}
	c.Figure("version", "%v", said)
}
