package monitoring

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// rule is one of alerts.yaml.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func rulesOf(t testing.TB, text string) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var rules []rule
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func shipped(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the test's rules have in the place of the shipped times. TestRules has the shipped ones.
var (
	anyFor    = regexp.MustCompile(`(?m)^( +for:) \d+[smhd]$`)
	anyWindow = regexp.MustCompile(`\[\d+[smhd]\]`)
	// limits are times in expressions, each of which stands in one rule.
	limits = map[string]string{
		"nodehitch_operation_processing_seconds > 1800": "nodehitch_operation_processing_seconds > 2",
		"nodehitch_operation_processing_seconds > 300":  "nodehitch_operation_processing_seconds > 1",
		"nodehitch_backup_age_seconds > 36 * 3600":      "nodehitch_backup_age_seconds > 12",
	}
)

const quickFor, quickWindow = "1s", "[10s]"

// quick are the shipped rules with short times and nothing else changed.
func quick(t testing.TB) string {
	t.Helper()
	text := anyFor.ReplaceAllString(shipped(t), "$1 "+quickFor)
	text = anyWindow.ReplaceAllString(text, quickWindow)
	for from, to := range limits {
		if strings.Count(text, from) != 1 {
			t.Fatalf("%q is not once in alerts.yaml", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	return text
}

// annotations are those of a rule, with their lines.
var annotations = regexp.MustCompile(`(?m)^        annotations:\n(          .*\n)+`)

// promtool runs it and returns what it printed.
func promtool(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The rules as shipped, with their long times, by series that are made up.
func TestRules(t *testing.T) {
	c := results.Begin(t, suite, "rules", "promtool accepts the rules; with made-up series each one fires after its time, not before, and ends")
	out := promtool(t, "", "check", "rules", alertsFile)
	rules := rulesOf(t, shipped(t))
	dir, tested := t.TempDir(), ""
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), annotations.ReplaceAll([]byte(shipped(t)), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alerts_test.yaml", "backup_test.yaml", "replicas_test.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
		promtool(t, "", "test", "rules", filepath.Join(dir, name))
		tested += string(text)
	}
	for _, r := range rules {
		for _, annotation := range []string{"summary", "description", "runbook"} {
			if r.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", r.Alert, annotation)
			}
		}
		if !regexp.MustCompile(`^(warning|critical)$`).MatchString(r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		if !strings.Contains(tested, "        alertname: "+r.Alert+"\n        exp_alerts: [") {
			t.Errorf("%s does not fire in a test of testdata/", r.Alert)
		}
		if to, ok := strings.CutPrefix(r.Annotations["runbook"], "docs/"); ok {
			page, name, _ := strings.Cut(to, "#")
			if !anchors(t, page)[name] {
				t.Errorf("%s: %s: no such heading", r.Alert, r.Annotations["runbook"])
			}
		} else if !strings.HasPrefix(r.Annotations["runbook"], "hitchctl ") {
			t.Errorf("%s: the runbook is neither a command nor a page: %s", r.Alert, r.Annotations["runbook"])
		}
	}
	c.Figure("rules", "%d; %s", len(rules), strings.TrimSpace(regexp.MustCompile(`SUCCESS: \d+ rules found`).FindString(out)))
}

// anchors are the names that GitHub gives to the headings of a page of docs/.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		names[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return names
}
