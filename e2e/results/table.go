package results

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads the records of a folder, ordered by suite and case. A case that was run
// several times has several.
func Load(folder string) ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, file := range files {
		records, err := loadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	sortRecords(all)
	return all, nil
}

func sortRecords(all []Record) {
	slices.SortStableFunc(all, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Suite, b.Suite), cmp.Compare(a.Case, b.Case), cmp.Compare(a.System, b.System))
	})
}

func loadFile(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var records []Record
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

// Markdown writes the table of all records, and under it the sums. It returns how
// many cases failed.
func Markdown(w io.Writer, records []Record) (failed int, err error) {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "| suite | case | system | shows | outcome | time | lost bytes | unauthorised | figures |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|")
	var sum Record
	outcomes := map[string]int{}
	for _, r := range records {
		outcomes[r.Outcome]++
		sum.Seconds += r.Seconds
		sum.LostBytes = sumOf(sum.LostBytes, r.LostBytes)
		sum.Unauthorised = sumOf(sum.Unauthorised, r.Unauthorised)
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %.1f s | %s | %s | %s |\n", r.Suite, r.Case, r.System, cell(r.Shows), r.Outcome, r.Seconds,
			count(r.LostBytes), count(r.Unauthorised), cell(strings.TrimPrefix(r.figures(), "; ")))
	}
	fmt.Fprintf(out, "\n%d cases: %d ok, %d failed, %d skipped; %.0f s; lost bytes: %s; unauthorised answers: %s\n",
		len(records), outcomes[OK], outcomes[Failed], outcomes[Skipped], sum.Seconds, count(sum.LostBytes), count(sum.Unauthorised))
	return outcomes[Failed], out.Flush()
}

func sumOf(sum, n *int64) *int64 {
	if n == nil {
		return sum
	}
	return add(sum, *n)
}

// count is empty if nothing was counted: "not checked" is not "none".
func count(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}
