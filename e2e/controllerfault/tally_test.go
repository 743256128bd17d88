package controllerfault

import (
	"errors"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// fact is something that was acknowledged and holds since.
type fact struct {
	// holds proves it.
	holds func() error
	// bytes is how much was acknowledged; nil if the fact is that somebody is not
	// let in.
	bytes func() int
}

// errLetIn is behind the error of a fact by which somebody must not have been let in.
var errLetIn = errors.New("was let in")

// kept is something acknowledged that can be read back.
func kept(bytes func() int, holds func() error) fact { return fact{holds, bytes} }

// refused is somebody who asks and must not be let in.
func refused(holds func() error) fact { return fact{holds: holds} }

// tally is the record of a case, with what was looked at for it.
type tally struct {
	*results.Case
	kept, refused int
}

func begin(t *testing.T, name, shows string) *tally {
	t.Helper()
	y := &tally{Case: results.Begin(t, "controllerfault", name, shows)}
	t.Cleanup(func() {
		if y.kept+y.refused > 0 {
			y.Figure("looked at", "%d things that had to survive, and %d requests that had to be refused", y.kept, y.refused)
		}
	})
	return y
}

// unrecorded is of a run that is no case.
func unrecorded() *tally { return &tally{Case: new(results.Case)} }

// look counts the fact, and what of it does not hold.
func (y *tally) look(f fact) error {
	err := f.holds()
	if f.bytes == nil {
		y.refused++
		y.Unauthorised(0)
		if errors.Is(err, errLetIn) {
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
