package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// steers is a character that does something where it is shown: C0 and C1 without tab and line break,
// marks of direction and of joining, separators, tags, and what is no character.
var steers = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffd\ufffe\uffff\U000e0001-\U000e007f]")

func harmless(what, text string) error {
	if at := steers.FindStringIndex(text); at != nil {
		return fmt.Errorf("%s has %q", what, text[max(0, at[0]-40):at[1]])
	}
	return nil
}

// hostileName is the server's name in the topology. JSON escapes it, and keeps it.
var hostileName = said(0, 235)

// decoded is what a program reads in JSON or YAML, but for that name.
func decoded(v any) string { return strings.ReplaceAll(fmt.Sprintf("%+v", v), hostileName, "") }

// sayings are what a text can do to those who read it: a terminal, a browser, YAML, a spreadsheet, a
// shell, a table.
var sayings = []string{
	"\u202e- x: &a !!b #\U000e0041\u200b👩‍👩‍👧 <script>window.said=1</script>", // hostileName
	"\x00\x01\a\b\v\f\x1b\x7f\u0080\u0085\u009b31m\u009d0;t\u009c", "\x1b[2J\x1b[8mhidden\x1b]0;title\a\x1b]52;c;eA==\a\x1b]8;;http://192.0.2.1/\x1b\\link",
	"\u202e\u202d\u2066\u2067\u2068\u2069\u200e\u200f\u061c", "\u200b\u200c\u200d\u2060\ufeff\u00ad", "a\u2028b\u2029c", "\U000e0041\ufffe\uffff\ufff9",
	"e" + strings.Repeat("\u0301\u0489", 20), strings.Repeat("語", 30), "🏳️‍🌈👍🏽", "العربية עברית", "@lone@",
	`"><script>window.said=1</script><img src=x onerror=window.said=1>`, `</title></table><svg/onload=window.said=1>`, `{{.}} ${7*7} <!--`,
	": ", "- a", "? x", "!!python/object/apply:os.system [id]", "&a *a", "---\n...\n", "| \n >", "%YAML", "~", "null", "1e3", "#c", "{a: [b", "'\"", "a: b\n- c\n---\nd",
	`=HYPERLINK("http://192.0.2.1")`, "+1", "-1+1", "@SUM(A1)", ";,\t\"", "$(id) `id` %s%n", "\r\n\rover", strings.Repeat("W", 200), `..\..\../..//`,
}

// said is the n-th saying, made so many characters long. What fills it takes six bytes each in a store.
func said(n, length int) string {
	text := []rune(sayings[n%len(sayings)] + strings.Repeat("<", length))
	return string(text[:length])
}

// perReport is how many conditions of a report no other report has.
const perReport = 30

// report is the n-th report: all that a node may say, each text another than in the one before.
func report(n int) []byte {
	moment := []time.Time{time.Now(), {}, time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.FixedZone("", -86340)), time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 86340))}[n%4]
	generation := []int64{int64(n), math.MaxInt64, math.MinInt64, -1}[n%4]
	s := api.NodeStatus{Epoch: 1, ObservedGeneration: generation, ObservedDigest: said(n, 128), AppliedGeneration: generation, AppliedDigest: said(n+1, 128),
		LastFailedGeneration: generation, LastFailedCondition: said(n+2, 64),
		Facts:    api.Facts{Hostname: said(n+3, 255), AgentVersion: said(n+4, 64), OSImage: said(n+5, 128), KernelVersion: said(n+6, 128), Architecture: said(n+7, 32), BootID: said(n+8, 64)},
		Activity: &api.Activity{Condition: said(n+9, 64), Summary: said(n+10, 512), StartedAt: moment},
		AgentUpgrade: &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: api.UpgradeRolledBack, Version: said(n+11, 64), Message: said(n+12, 4096),
			Refused: slices.Repeat([]api.RefusedAgent{{Version: said(n+13, 64), Sha256: said(n+14, 64), At: moment}}, 16)},
	}
	for k := range 1 + n%2*63 {
		s.BoundPersistentVolumes = append(s.BoundPersistentVolumes, api.BoundPersistentVolume{Name: said(n+k, 32), Server: said(n+k+1, 32)})
	}
	reasons := []api.Reason{api.ReasonSizeMismatch, api.ReasonForeignData, api.ReasonMounted, "R" + strings.Repeat("x", 63)}
	for k := range 2 + perReport {
		c := api.Condition{Type: fmt.Sprintf("Said%dx%d", n, k), Status: []api.ConditionStatus{api.ConditionTrue, api.ConditionFalse, api.ConditionUnknown}[k%3],
			Reason: reasons[(n+k)%4], Message: said(n+k, 300+k%8/7*3796), ObservedGeneration: generation, LastTransitionTime: moment}
		if k < 2 {
			c.Type = []string{api.ConditionReady, api.ConditionVolumesMounted}[k]
		}
		s.Conditions = append(s.Conditions, c)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // the test's own status
	}
	return bytes.ReplaceAll(text, []byte("@lone@"), []byte(`\ud800`)) // which no string of Go can say
}

// say has so many reports taken.
func say(ctx context.Context, m *loopback.Machine, reports int) error {
	for n := 0; n < reports; {
		err := m.ReportText(ctx, report(n))
		var wait *client.TooMany
		switch {
		case err == nil:
			n++
		case errors.As(err, &wait):
			if err := sleep.For(ctx, wait.RetryAfter, nil); err != nil {
				return err
			}
		default:
			return fmt.Errorf("report %d: %w", n, err)
		}
	}
	return nil
}
