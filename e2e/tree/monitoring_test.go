package tree

import (
	"regexp"
	"strings"
	"testing"
)

// The page explains each metric and each event.
func TestMonitoringPageHasEveryMetricAndEvent(t *testing.T) {
	page := read(t, "../../docs/monitoring.md")
	names := read(t, "../../docs/dev/public-names.txt")
	found := map[string]int{}
	for _, title := range []string{"Metrics", "Values of the log's fields"} {
		_, list, _ := strings.Cut(names, "\n# "+title)
		list, _, _ = strings.Cut(list, "\n#")
		_, list, _ = strings.Cut(list, "\n")
		for line := range strings.Lines(list) {
			name := strings.Fields(line + " ")
			if len(name) == 0 {
				continue
			}
			found[title]++
			if whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(name[0]) + `($|[^\w.-])`); !whole.MatchString(page) {
				t.Errorf("docs/monitoring.md does not have %s", name[0])
			}
		}
		if found[title] == 0 {
			t.Errorf("docs/dev/public-names.txt has no %q", title)
		}
	}
}
