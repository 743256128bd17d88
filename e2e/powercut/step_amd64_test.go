package powercut

import (
	"fmt"
	"strings"
)

// step is the n-th time that the agent reaches a boundary: what other processes do
// meanwhile does not change it, as it would change a plain count.
type step struct {
	boundary
	n int
}

func (s step) String() string {
	if s.n == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%d)", s.boundary, s.n)
}

// upToReport leaves out what comes after the last record in the journal.
func upToReport(path []step) []step {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].record() {
			return path[:i+1]
		}
	}
	return path
}

// record: with it a record of the journal comes into force.
func (s step) record() bool {
	return strings.HasPrefix(s.call, "rename") && strings.Contains(s.on, "/journal/")
}

// mkfs: the agent begins to wait for mkfs, which has just begun.
func (s step) mkfs() bool { return s.boundary == boundary{"waitid", "mkfs.ext4"} }
