package results

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// MarkdownSystems writes what happened on each operating system, for the suites that were
// run on several. Records without a system are of Debian 12's machines, if of any.
func MarkdownSystems(w io.Writer, records []Record) error {
	cases := map[string]map[image.System][]Record{}
	columns := map[image.System]bool{}
	for _, r := range records {
		if cases[r.Suite] == nil {
			cases[r.Suite] = map[image.System][]Record{}
		}
		system := cmp.Or(r.System, image.Debian12)
		cases[r.Suite][system] = append(cases[r.Suite][system], r)
		columns[system] = true
	}
	if len(columns) < 2 {
		return nil
	}
	systems := slices.Sorted(maps.Keys(columns))
	var out strings.Builder
	fmt.Fprintf(&out, "\n| suite |%s\n|---|%s\n", row(systems, func(s image.System) string { return string(s) }), strings.Repeat("---|", len(systems)))
	for _, suite := range slices.Sorted(maps.Keys(cases)) {
		if len(cases[suite]) > 1 {
			fmt.Fprintf(&out, "| %s |%s\n", suite, row(systems, func(s image.System) string { return happened(cases[suite][s]) }))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func row(systems []image.System, cell func(image.System) string) (text string) {
	for _, s := range systems {
		text += " " + cell(s) + " |"
	}
	return text
}

// happened counts the cases that were ok and names all others.
func happened(records []Record) string {
	if len(records) == 0 {
		return "not run"
	}
	others := map[string][]string{}
	for _, r := range records {
		if r.Outcome != OK {
			others[r.Outcome] = append(others[r.Outcome], r.Case)
		}
	}
	said := []string{fmt.Sprintf("%d ok", len(records)-len(slices.Concat(slices.Collect(maps.Values(others))...)))}
	for _, outcome := range slices.Sorted(maps.Keys(others)) {
		said = append(said, fmt.Sprintf("%d %s (%s)", len(others[outcome]), outcome, strings.Join(others[outcome], ", ")))
	}
	return strings.Join(said, ", ")
}
