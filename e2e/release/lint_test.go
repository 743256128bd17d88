package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

func TestLintian(t *testing.T) {
	results.Begin(t, suite, "lintian", "lintian has neither errors nor warnings, besides those that packaging/lintian-overrides explains")
	need(t, "lintian", "lintian")
	cmd := exec.CommandContext(t.Context(), "lintian", append([]string{"--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning"}, built(t).packages(t, "deb")...)...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRpmlint(t *testing.T) {
	c := results.Begin(t, suite, "rpmlint", "rpmlint has neither errors nor warnings, besides those that packaging/rpmlint.toml explains")
	need(t, "rpmlint", "rpmlint")
	packages := built(t).packages(t, "rpm")
	out, err := exec.CommandContext(t.Context(), "rpmlint", append([]string{"--config", "../../packaging/rpmlint.toml"}, packages...)...).CombinedOutput()
	sum := regexp.MustCompile(`(\d+) packages and 0 specfiles checked; 0 errors, 0 warnings`).FindSubmatch(out)
	if err != nil || sum == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Figure("checked", "%s packages", sum[1])
}

// counted is the release of systemd whose systemd-analyze counted as docs/security.md says.
// Others know other settings.
const counted = "systemd 252 "

// most is how exposed a service may be, of 100. docs/security.md has the reason of each
// privilege.
var most = map[string]string{
	"nodehitch-agent.service":      "87",
	"nodehitch-backup.service":     "13",
	"nodehitch-controller.service": "15",
}

func TestUnits(t *testing.T) {
	c := results.Begin(t, suite, "units", "systemd understands the units, and no service has a privilege that docs/security.md does not explain")
	need(t, "systemd-analyze", "systemd")
	root := t.TempDir()
	for _, name := range []string{"nodehitch-agent", "nodehitch-controller"} {
		run(t, "dpkg-deb", "--extract", built(t).deb(name, "amd64"), root)
	}
	units, err := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system/*"))
	if err != nil || len(units) != 5 {
		t.Fatalf("units: %q, %v", units, err)
	}
	verified := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// The programs need not be installed where the test runs.
		text = regexp.MustCompile(`/usr/bin/(nodehitch-[a-z]+|hitchctl)`).ReplaceAll(text, []byte("/bin/true"))
		path := filepath.Join(verified, filepath.Base(unit))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "nodehitch") {
		t.Errorf("%v: %s", err, out)
	}
	if is := run(t, "systemd-analyze", "--version"); !strings.HasPrefix(is, counted) {
		t.Skipf("the units are understood; how exposed the services are is not compared, because systemd-analyze is not of %s: %s", counted, is)
	}
	for unit, limit := range most {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--offline=true", "--root="+root, "--threshold="+limit, unit).CombinedOutput()
		exposure := regexp.MustCompile(`Overall exposure level for \S+: (\S+)`).FindSubmatch(out)
		if err != nil || exposure == nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
			continue
		}
		c.Figure(unit, "exposure %s", exposure[1])
	}
}
