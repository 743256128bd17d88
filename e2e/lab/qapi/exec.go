package qapi

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// Program is what Exec runs in the guest.
type Program struct {
	Path  string
	Args  []string
	Env   []string // the whole environment, as NAME=value
	Stdin []byte
}

// Outcome is how a program ended.
type Outcome struct {
	ExitCode       int // −1 when a signal ended it
	Stdout, Stderr []byte
}

// ErrTruncated is a program that printed more than the agent keeps (16 MiB).
var ErrTruncated = errors.New("printed more than the guest agent keeps")

type execStatus struct {
	Exited       bool
	Exitcode     *int
	Signal       *int
	OutData      []byte `json:"out-data"`
	ErrData      []byte `json:"err-data"`
	OutTruncated bool   `json:"out-truncated"`
	ErrTruncated bool   `json:"err-truncated"`
}

// Exec runs a program through the agent and waits until it has ended and
// closed its output. A program that could not be started is an *Error. When
// ctx ends first the program goes on.
func (c *Client) Exec(ctx context.Context, p Program) (Outcome, error) {
	var started struct{ PID int }
	// The agent refuses null: empty, not nil.
	err := c.Do(ctx, "guest-exec", map[string]any{
		"path": p.Path, "arg": append([]string{}, p.Args...), "env": append([]string{}, p.Env...),
		"input-data": append([]byte{}, p.Stdin...), "capture-output": true,
	}, &started)
	if err != nil {
		return Outcome{}, err
	}
	// The agent has no event for it. Ask often at first, because most programs are
	// quick, and seldom later, because each question costs the guest time.
	for pause := 10 * time.Millisecond; ; pause = min(pause*5/4, 250*time.Millisecond) {
		var s execStatus
		if err := c.Do(ctx, "guest-exec-status", map[string]int{"pid": started.PID}, &s); err != nil {
			return Outcome{}, err
		}
		if s.Exited {
			return s.outcome()
		}
		select {
		case <-ctx.Done():
			return Outcome{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (s execStatus) outcome() (Outcome, error) {
	o := Outcome{ExitCode: -1, Stdout: s.OutData, Stderr: bytes.Clone(s.ErrData)}
	if s.Exitcode != nil {
		o.ExitCode = *s.Exitcode
	}
	if s.OutTruncated || s.ErrTruncated {
		return o, ErrTruncated
	}
	return o, nil
}
