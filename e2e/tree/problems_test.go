package tree

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// docs/problems.md has a heading for each type of a problem, and no other, with the status, the title, and what to do.
func TestProblemsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n## ")[1:]
	types := api.ProblemTypes()
	for i, kind := range types {
		p := api.NewProblem(kind, "")
		begins := fmt.Sprintf("%s\n%d: %s. ", strings.TrimPrefix(kind, api.ProblemPrefix), p.Status, p.Title)
		if i >= len(sections) || !strings.HasPrefix(sections[i], begins) || strings.TrimSpace(sections[i]) == strings.TrimSpace(begins) {
			t.Fatalf("docs/problems.md: section %d of %d: expected, in the order of the names, what to do behind\n## %s", i+1, len(sections), begins)
		}
	}
	if len(sections) != len(types) {
		t.Errorf("docs/problems.md has %d sections, and the code %d types", len(sections), len(types))
	}
}
