package tree

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// If a page or a heading is renamed, its links are too.
func TestLinksResolve(t *testing.T) {
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md", "../../.github/SECURITY.md"}
	for _, folder := range []string{"docs", "docs/dev"} {
		found, err := filepath.Glob("../../" + folder + "/*.md")
		if err != nil || len(found) == 0 {
			t.Fatalf("%d pages in %s: %v", len(found), folder, err)
		}
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			to, err := url.Parse(found[1])
			if err != nil {
				t.Errorf("%s: %s: %v", page, found[1], err)
				continue
			}
			if to.Scheme != "" {
				continue
			}
			links++
			target := page
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(page), to.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: no such file", page, found[1])
			} else if to.Fragment != "" && !anchors(read(t, target))[to.Fragment] {
				t.Errorf("%s: %s: no such heading", page, found[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links were followed", links)
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		names[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
