package controllerfault

import (
	"errors"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// fact is something that was acknowledged and must hold since.
type fact struct {
	// holds returns an error if it does not hold.
	holds func() error
	// bytes is how much was acknowledged; nil if the fact is that a request is refused.
	bytes func() int
}

// errNotRefused is wrapped in the error if a request that must be refused was not.
var errNotRefused = errors.New("was not refused")

// kept is something acknowledged that can be read back.
func kept(bytes func() int, holds func() error) fact { return fact{holds, bytes} }

// refused is a request that must be refused.
func refused(holds func() error) fact { return fact{holds: holds} }

// tally is the record of a case, with how much was checked for it.
type tally struct {
	*results.Case
	kept, refused int
}

func begin(t *testing.T, name, shows string) *tally {
	t.Helper()
	y := &tally{Case: results.Begin(t, "controllerfault", name, shows)}
	t.Cleanup(func() {
		if y.kept+y.refused > 0 {
			y.Figure("checked", "%d acknowledged facts, and %d requests that had to be refused", y.kept, y.refused)
		}
	})
	return y
}

// unrecorded is of a run that is no case.
func unrecorded() *tally { return &tally{Case: new(results.Case)} }

// check counts the fact, and what is lost if it does not hold.
func (y *tally) check(f fact) error {
	err := f.holds()
	if f.bytes == nil {
		y.refused++
		y.Unauthorised(0)
		if errors.Is(err, errNotRefused) {
			y.Unauthorised(1)
		}
		return err
	}
	y.kept++
	y.Lost(0)
	if err != nil {
		y.Lost(int64(max(1, f.bytes())))
	}
	return err
}
