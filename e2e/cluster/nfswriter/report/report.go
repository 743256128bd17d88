// Package report is what nfswriter and the suite that runs it tell each other.
package report

import "fmt"

// Kind is a way of writing.
type Kind string

// The kinds.
const (
	Append  Kind = "append"
	Open    Kind = "open"
	Lock    Kind = "lock"
	Rename  Kind = "rename"
	Deleted Kind = "deleted"
)

// Kinds are all of them.
var Kinds = []Kind{Append, Open, Lock, Rename, Deleted}

// Files that the suite looks at.
const (
	AppendFile = "appended"
	LockFile   = "locked"
)

// RenamedBefore is the note of a rename that was answered with ENOENT because it was done.
const RenamedBefore = "the file had its new name"

// Report is a line that nfswriter sends after the n-th operation of a kind.
type Report struct {
	Kind Kind  `json:"kind"`
	N    int64 `json:"n"`
	// Error is the name of the error, such as EIO; empty after a success.
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"`
}

// Record is what the n-th operation writes; all have the same length.
func Record(n int64) string { return fmt.Sprintf("%015d\n", n) }
