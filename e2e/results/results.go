// Package results records the outcome of every black-box case, for the table that
// docs/dev/testing.md explains. A case that ends without a record would not be in the
// table, so a test begins its record before it does anything else.
package results

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// The environment variables of a run.
const (
	// EnvFolder is where records are written; unset means nowhere.
	EnvFolder = "NODEHITCH_RESULTS"
	// EnvSuite is "full" for a run that includes the long cases, "brief" for `make test`.
	EnvSuite = "NODEHITCH_SUITE"
)

// The outcomes.
const (
	OK      = "ok"
	Failed  = "FAILED"
	Skipped = "skipped"
)

// Record is one case.
type Record struct {
	Suite string `json:"suite"`
	Case  string `json:"case"`
	// System is the operating system of the machines, if the run or the case chose one.
	System image.System `json:"system,omitempty"`
	// Shows says in one sentence what the case shows.
	Shows   string  `json:"shows"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// LostBytes is how many bytes that had to survive did not; nil if the case
	// checked none.
	LostBytes *int64 `json:"lostBytes,omitempty"`
	// Unauthorised is how many requests got an answer that they must not get; nil
	// if the case made none.
	Unauthorised *int64 `json:"unauthorised,omitempty"`
	// Figures are what the case measured, in the order in which it did.
	Figures []Figure `json:"figures,omitempty"`
}

// Figure is something measured, with its unit.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Case is a record in the making. Its methods are for the test's own goroutine.
type Case struct{ record Record }

// Begin begins the record of a case and writes it when the test ends, in whatever way.
func Begin(t testing.TB, suite, name, shows string) *Case {
	t.Helper()
	c := &Case{Record{Suite: suite, Case: name, Shows: shows, System: image.System(os.Getenv(image.EnvSystem))}}
	started := time.Now()
	t.Cleanup(func() {
		c.record.Seconds = time.Since(started).Seconds()
		if c.record.broken() {
			t.Errorf("%d bytes were lost, %d answers unauthorised", value(c.record.LostBytes), value(c.record.Unauthorised))
		}
		switch {
		case t.Failed():
			c.record.Outcome = Failed
		case t.Skipped():
			c.record.Outcome = Skipped
		default:
			c.record.Outcome = OK
		}
		t.Logf("%s/%s: %s in %.1f s%s", suite, name, c.record.Outcome, c.record.Seconds, c.record.figures())
		if err := c.record.write(os.Getenv(EnvFolder)); err != nil {
			t.Errorf("writing the result of the case: %v", err)
		}
	})
	return c
}

// On says which operating system the machines have, for a case that chooses one.
func (c *Case) On(s image.System) { c.record.System = s }

// Lost adds bytes that had to survive and did not; 0 says that the case checked some.
func (c *Case) Lost(bytes int64) { c.record.LostBytes = add(c.record.LostBytes, bytes) }

// Unauthorised adds answers that must not have been given; 0 says that the case asked.
func (c *Case) Unauthorised(answers int64) {
	c.record.Unauthorised = add(c.record.Unauthorised, answers)
}

// Figure notes something measured.
func (c *Case) Figure(name, format string, args ...any) {
	c.record.Figures = append(c.record.Figures, Figure{Name: name, Value: fmt.Sprintf(format, args...)})
}

// broken says that the case counted what must not happen, whatever else it asserted.
func (r Record) broken() bool { return value(r.LostBytes) > 0 || value(r.Unauthorised) > 0 }

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func add(to *int64, n int64) *int64 {
	if to != nil {
		n += *to
	}
	return &n
}

func (r Record) figures() string {
	text := ""
	for _, f := range r.Figures {
		text += fmt.Sprintf("; %s %s", f.Name, f.Value)
	}
	return text
}

// write appends the record to the suite's file. Suites run as processes of their
// own; one short write with O_APPEND does not mix with another's.
func (r Record) write(folder string) error {
	if folder == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, r.Suite+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return err
}

// Full reports whether the run includes the long cases.
func Full() bool { return os.Getenv(EnvSuite) == "full" }

// Brief reports whether the run is that of `make test`, which has a few cases of each kind.
func Brief() bool { return os.Getenv(EnvSuite) == "brief" }

// LongOnly skips a long case if the run does not include them, and says so.
func LongOnly(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("a long case: `make e2e` runs it")
	}
}
