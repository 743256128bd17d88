package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// What a disk can answer to a change, as bbolt passes it on.
func TestAChangeThatTheDiskDoesNotTake(t *testing.T) {
	write := func(n syscall.Errno) error { return &fs.PathError{Op: "write", Path: "/secret/place/store.db", Err: n} }
	for name, c := range map[string]struct {
		err            error
		says           string
		outcomeUnknown bool
	}{
		"full":                          {write(syscall.ENOSPC), "disk is full", false},
		"over the quota":                {write(syscall.EDQUOT), "disk is full", false},
		"read-only":                     {write(syscall.EROFS), "read-only file system", false},
		"broken while it was written":   {write(syscall.EIO), "input/output error", false},
		"no larger file":                {errors.New("file resize error: file too large"), "file too large", false},
		"broken while it was confirmed": {syscall.EIO, "stops", true},
		"full while it was confirmed":   {syscall.ENOSPC, "stops", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPlace(t).open(t)
			err := s.engine.(*bolt).notWritten(c.err)
			var problem *api.Problem
			if !errors.As(err, &problem) || problem.Type != api.ProblemUnavailable || !strings.Contains(problem.Detail, c.says) {
				t.Errorf("error %v, want unavailable that says %q", err, c.says)
			}
			if strings.Contains(problem.Detail, "/secret") {
				t.Errorf("the client is told a place on the controller: %s", problem.Detail)
			}
			if !errors.Is(err, c.err) {
				t.Errorf("the log does not see %v in %v", c.err, err)
			}
			if got := errors.Is(err, ErrOutcomeUnknown); got != c.outcomeUnknown {
				t.Errorf("outcome unknown: %v, want %v", got, c.outcomeUnknown)
			}
			err = s.Update(func(tx *Tx) error { return tx.Nodes().Put("n1", Node{}) })
			if (err != nil) != c.outcomeUnknown {
				t.Errorf("the next change: %v", err)
			}
		})
	}
}

// A page that cannot be read any more costs the requests that need it an error that
// names the record, and not the process.
func TestAPageThatCannotBeReadIsAnError(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	for i := range 200 {
		update(t, s, func(tx *Tx) error {
			return tx.Nodes().Put(fmt.Sprintf("n%03d", i), Node{Name: strings.Repeat("x", 500)})
		})
	}
	shut(t, s)
	s = p.open(t)
	if err := os.Truncate(p.file(), 2*4096); err != nil { // under its feet
		t.Fatal(err)
	}
	for name, use := range map[string]func(Collection[Node]) error{
		"get":    func(c Collection[Node]) error { _, _, err := c.Get("n001"); return err },
		"prefix": func(c Collection[Node]) error { _, err := c.All(); return err },
		"keys":   func(c Collection[Node]) error { _, err := c.Keys(""); return err },
		"len":    func(c Collection[Node]) error { _, err := c.Len(); return err },
		"put":    func(c Collection[Node]) error { return c.Put("n001", Node{}) },
		"delete": func(c Collection[Node]) error { return c.Delete("n001") },
	} {
		t.Run(name, func(t *testing.T) {
			err := outcome(func() error { return s.Update(func(tx *Tx) error { return use(tx.Nodes()) }) })
			wantError(t, err, "nodes/", "damaged", "restore a backup")
		})
	}
}
