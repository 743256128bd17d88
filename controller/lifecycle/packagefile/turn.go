package packagefile

import (
	"runtime"

	"github.com/nodehitch/nodehitch/shared/params"
)

// How many files are checked at a time: a check takes many times the memory of a small file.
// Archives have turns of their own, because a large one takes as long as the disk needs for it.
var (
	turns        = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	archiveTurns = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
)

// takeTurn waits until a file of this use may be checked; the turn ends with the function
// that it returns.
func takeTurn(use params.Use) (end func()) {
	taken := turns
	if use == params.UseImage || use == params.UseImages || use == params.UsePrograms {
		taken = archiveTurns
	}
	taken <- struct{}{}
	return func() { <-taken }
}
