package sitetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/site"
)

// World is a controller in a lab, whose instances a test takes through operations.
type World struct {
	*site.Site
	// T is the test that goes on now; the world lives as long as the one that opened it.
	T *testing.T

	last netip.Addr // that a server was given
}

// NewWorld opens one of the built binaries, in a lab whose images for machines of these
// kinds are built.
func NewWorld(t *testing.T, kinds ...lab.Kind) *World {
	t.Helper()
	return &World{Site: Open(t, loopback.Bin(t), kinds...), T: t}
}

// During makes another test the one that goes on, until over.
func (w *World) During(t *testing.T) (over func()) {
	before := w.T
	w.T = t
	return func() { w.T = before }
}

// Address is one of the lab that no server has had.
func (w *World) Address() netip.Addr {
	if !w.last.IsValid() {
		w.last = lab.Gateway
	}
	w.last = w.last.Next()
	return w.last
}

// Until calls wrong until it returns no error, and fails the test in the end.
func (w *World) Until(what string, wrong func() error) {
	w.T.Helper()
	Until(w.T, what, wrong)
}

// File writes an object into a file that hitchctl is to read.
func (w *World) File(name string, v any) string {
	w.T.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	path := filepath.Join(w.T.TempDir(), name)
	if err := errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
		w.T.Fatal(err)
	}
	return path
}

// Answer is what hitchctl answered. If it could not be run, the exit code is -1.
type Answer struct {
	Args           []string
	Stdout, Stderr string
	Code           int
	CPU            time.Duration
}

func (s Answer) String() string {
	return fmt.Sprintf("hitchctl %q: exit code %d\n%s%s", s.Args, s.Code, s.Stdout, s.Stderr)
}

// CLI runs hitchctl to its end.
func (w *World) CLI(args ...string) Answer { return w.follow(args, func(string) {}) }

// Must is CLI for what has to succeed, and returns what it printed.
func (w *World) Must(args ...string) string {
	w.T.Helper()
	s := w.CLI(args...)
	if s.Code != 0 {
		w.T.Fatal(s)
	}
	return s.Stdout
}

// follow passes each line on as it comes.
func (w *World) follow(args []string, onLine func(line string)) Answer {
	s := Answer{Args: args}
	var stderr bytes.Buffer
	cmd := w.Command(w.T.Context(), args...)
	cmd.Stderr = &stderr
	lines, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Code, s.Stderr = -1, err.Error()
		return s
	}
	in := bufio.NewReader(lines)
	for {
		line, err := in.ReadString('\n')
		s.Stdout += line
		if err != nil {
			break
		}
		onLine(line)
	}
	_ = cmd.Wait() // what is wrong is in the exit code
	s.Code, s.Stderr = cmd.ProcessState.ExitCode(), stderr.String()
	s.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s
}
