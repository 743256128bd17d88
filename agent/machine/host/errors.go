package host

import "fmt"

// BusyError says that another process has the package manager's lock.
type BusyError struct{ Detail string }

func (e *BusyError) Error() string { return "the package manager is busy: " + e.Detail }

// UnavailableError says that a package cannot be installed, with the package manager's
// message.
type UnavailableError struct{ Package, Detail string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the package %s cannot be installed: %s", e.Package, e.Detail)
}

// NoSystemdError says that systemd does not answer, so that nothing is known of units.
type NoSystemdError struct{ Err error }

func (e *NoSystemdError) Error() string {
	return fmt.Sprintf("connecting to systemd: %v (is systemd the init of this machine?)", e.Err)
}

// Unwrap is the cause.
func (e *NoSystemdError) Unwrap() error { return e.Err }

// JobError says that a job of systemd failed.
type JobError struct {
	Unit, Verb, Result string
	// Detail is the end of the unit's log, or the units that failed; "" if it is unknown.
	Detail string
}

func (e *JobError) Error() string {
	text := fmt.Sprintf("%s of %s: %s", e.Verb, e.Unit, e.Result)
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	return text
}
