// Package nocore keeps the memory of a process that has secrets off the disk.
package nocore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disable makes sure that this process leaves no core dump, whatever it dies of: its memory
// contains keys, tokens and passwords. The limit alone is not enough, because it does not apply
// to a core_pattern that is a pipe. So the process is not dumpable either, which also keeps
// other processes of its user from tracing it. Programs that it starts inherit the limit
// only.
func Disable() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("setting the limit of core dumps to 0: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process not dumpable: %w", err)
	}
	return nil
}
