package params

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// maxListed bounds each list of a report: the pointers of a hostile document
// could together be far larger than the document.
const maxListed = 200

// reading collects what is found while a document is read.
type reading struct {
	faults, warnings findings
}

func (r *reading) fault(at fault.At, format string, args ...any) {
	r.faults.add(at, format, args...)
}

func (r *reading) warn(at fault.At, format string, args ...any) {
	r.warnings.add(at, format, args...)
}

// report is the outcome; partial is dropped where it is complete.
func (r *reading) report(at fault.At, partial *Params) Report {
	report := Report{Faults: r.faults.all(at), Warnings: r.warnings.all(at)}
	if len(report.Faults) > 0 {
		report.Partial = partial
	}
	return report
}

// findings is a bounded list.
type findings struct {
	list    fault.List
	omitted int
}

func (f *findings) add(at fault.At, format string, args ...any) {
	if len(f.list) >= maxListed {
		f.omitted++
		return
	}
	f.list = append(f.list, at.Fault(fmt.Sprintf(format, args...)))
}

func (f *findings) all(at fault.At) fault.List {
	if f.omitted == 0 {
		return f.list
	}
	return append(f.list, at.Fault(fmt.Sprintf("has %d more findings, which are not listed", f.omitted)))
}
