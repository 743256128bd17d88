package params

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// maxListed bounds each list of a report: the pointers of a hostile document
// could together be far larger than the document.
const maxListed = 200

// reader collects what is found while a document is read.
type reader struct {
	faults, warnings findings
	architectures    []string
	holds            []string
}

func (r *reader) fault(at fault.At, format string, args ...any) {
	r.faults.add(at, format, args...)
}

func (r *reader) warn(at fault.At, format string, args ...any) {
	r.warnings.add(at, format, args...)
}

// report is the outcome, each list in the order of the document: root, nil if
// it could not be read, is the value at the place at.
func (r *reader) report(root *jsontree.Node, at fault.At) Report {
	return Report{Faults: r.faults.sorted(root, at), Warnings: r.warnings.sorted(root, at), Architectures: r.architectures, Holds: r.holds}
}

// findings is a bounded list.
type findings struct {
	list    fault.List
	omitted int
}

func (f *findings) full() bool { return len(f.list) >= maxListed }

func (f *findings) add(at fault.At, format string, args ...any) {
	if f.full() {
		f.omitted++
		return
	}
	f.list = append(f.list, at.Fault(fmt.Sprintf(format, args...)))
}

// sorted is the list in the order of the document, findings at one place in the
// order in which they were made, and a word on those that were left out.
func (f *findings) sorted(root *jsontree.Node, at fault.At) fault.List {
	if root != nil {
		starts := make(map[string]int, len(f.list))
		for _, entry := range f.list {
			place := fault.At(strings.TrimPrefix(entry.Pointer, string(at)))
			starts[entry.Pointer] = root.Find(place).Start
		}
		slices.SortStableFunc(f.list, func(a, b fault.Fault) int {
			return cmp.Compare(starts[a.Pointer], starts[b.Pointer])
		})
	}
	if f.omitted > 0 {
		return append(f.list, at.Fault(fmt.Sprintf("has %d more findings, which are not listed", f.omitted)))
	}
	return f.list
}

// listed shows a few of many texts.
func listed(texts []string) string {
	const most = 8
	if len(texts) == 0 {
		return "none"
	}
	var shown []string
	for i, t := range texts {
		if i == most {
			shown = append(shown, "…")
			break
		}
		shown = append(shown, grammar.Show(t))
	}
	return strings.Join(shown, ", ")
}
