package nocore

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestDisable(t *testing.T) {
	if err := Disable(); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: 1, Max: 1}
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit != (unix.Rlimit{}) {
		t.Errorf("the limit is %+v: %v", limit, err)
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		t.Errorf("dumpable is %d: %v", dumpable, err)
	}
}
