package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const example = "# Changelog\n\nFor people.\n\n## v0.2.0 - unreleased\n- Two.\n- Three.\n\n## v0.1.1-rc.1 - 2026-03-02\n- One.\n\n## v0.1.0 - 2026-02-01\n- First.\n"

func TestTheChangelogOfABuildBeginsWithIt(t *testing.T) {
	releases, err := readChangelog(example)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 4, 1, 2, 3, 4, 0, time.UTC)
	first := release{"0.1.0", time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), []string{"First."}}
	candidate := release{"0.1.1~rc.1", time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), []string{"One."}}
	for build, want := range map[string][]release{
		"v0.2.0":            {{"0.2.0", at, []string{"Two.", "Three."}}, candidate, first},
		"v0.1.1-rc.1":       {candidate, first},
		"v0.1.0":            {first},
		"v0.1.0-3-g784fea1": {{"0.1.0+3.g784fea1", at, []string{"This build is no release: v0.1.0-3-g784fea1."}}, candidate, first},
		"v0.9.0":            {{"0.9.0", at, []string{"This build is no release: v0.9.0."}}, candidate, first},
	} {
		got := forBuild(releases, packageVersion(build, at), build, at)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(release{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", build, diff)
		}
	}
}

func TestAChangelogOfAnotherFormIsRefused(t *testing.T) {
	for old, fault := range map[string]string{
		"## v0.1.0 - 2026-02-01":      "## 0.1.0 - 2026-02-01",
		"## v0.1.1-rc.1 - 2026-03-02": "## v0.1.1-rc.1 - unreleased",
		"- First.":                    "- " + strings.Repeat("x", longestChange+1),
		"- One.":                      "One.",
		"2026-02-01":                  "2026-02-31",
	} {
		text := strings.Replace(example, old, fault, 1)
		line := strings.Count(text[:strings.Index(text, fault)], "\n") + 1
		_, err := readChangelog(text)
		if at := fmt.Sprintf("CHANGELOG.md:%d: ", line); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v, want an error at %s", fault, err, at)
		}
	}
}

func TestTheChangelogOfTheProject(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	releases, err := readChangelog(string(text))
	if err != nil || len(releases) == 0 {
		t.Errorf("%d releases, %v", len(releases), err)
	}
}
