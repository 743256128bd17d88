package tree

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

const conditionsPage = "../../docs/conditions.md"

// docs/conditions.md is the registry of reasons, for people: rewrite it with -update.
func TestConditionsPage(t *testing.T) {
	got := renderConditions()
	if *update {
		if err := os.WriteFile(conditionsPage, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(conditionsPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the code says, run `go test ./e2e/tree -update` (-page +code):\n%s", conditionsPage, diff)
	}
}

// The reasons of an upgrade have a table in docs/agent.md.
func TestUpgradeReasonsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	for reason, doc := range api.UpgradeReasons {
		action := doc.Action
		if action == "" {
			action = "nothing"
		}
		row := fmt.Sprintf("\n| `%s` | %s | %s |\n", reason, doc.Meaning, action)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/agent.md lacks the row of the code:%s", row)
		}
	}
}

func renderConditions() string {
	var b strings.Builder
	b.WriteString("# Conditions and reasons\n\n")
	b.WriteString("Made from `shared/api/reason.go`; a test keeps it so. A reason never changes its meaning.\n\n")
	b.WriteString("A reason is final if no waiting mends what it names: somebody has to act. An operation whose nodes have failed finally " +
		"[ends before its deadline](operations.md#how-you-see-that-it-worked). " +
		"A failure that the agent tries again is not final, whatever its reason.\n\n")
	b.WriteString("| reason | what it means | what to do | final |\n|---|---|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(api.Reasons)) {
		doc := api.Reasons[reason]
		action := doc.Action
		if action == "" {
			action = "nothing"
		}
		final := ""
		if doc.Final {
			final = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", reason, doc.Meaning, action, final)
	}
	return b.String()
}
