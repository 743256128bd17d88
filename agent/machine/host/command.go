package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Command is one program to run.
type Command struct {
	// Argv is logged and is part of errors, so it contains no secret.
	Argv []string
	// Env is added to a small fixed environment; it is never logged.
	Env []string
	// Secrets are removed from the program's output.
	Secrets []string
	// Input is what it reads, nil for nothing.
	Input io.Reader
	// Files are its open files from number 3 on.
	Files []*os.File
	// Reads says that it is read-only.
	Reads bool
	// Limit is how long it may take, 0 = as long as the context.
	Limit time.Duration
}

// Result is what a program printed.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// CommandError is a program that could not be run, or whose exit code is not 0.
type CommandError struct {
	Argv []string
	// Code is the exit code, −1 if it was killed or did not start.
	Code int
	// Output is the end of what it printed.
	Output string
	Err    error
}

func (e *CommandError) Error() string {
	text := fmt.Sprintf("running %s: %v", strings.Join(e.Argv, " "), e.Err)
	if e.Output != "" {
		text += ": " + e.Output
	}
	return text
}

func (e *CommandError) Unwrap() error { return e.Err }

// Refusal is the error of a program that has ended by itself with an exit code other than 0, and so
// may refuse what it was given. It is nil for any other error: a program that did not start, was
// killed or took too long has refused nothing.
func Refusal(err error) *CommandError {
	var failed *CommandError
	if errors.As(err, &failed) && failed.Code > 0 {
		return failed
	}
	return nil
}

// errNotInstalled says that the program is in no directory of searchPath.
var errNotInstalled = errors.New("no such program is installed")

// Runner runs commands.
type Runner struct {
	Log     *slog.Logger
	Changes *Changes
}

// Run runs the command to its end. Its error is a *CommandError; the result is complete even
// then. When ctx is done or the limit is reached, the program and everything that it started
// are killed.
func (r *Runner) Run(ctx context.Context, c Command) (Result, error) {
	if c.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("it took longer than %s", c.Limit))
		defer cancel()
	}
	path, err := find(c.Argv[0])
	if err != nil {
		return Result{Code: -1}, &CommandError{Argv: c.Argv, Code: -1, Err: err}
	}
	var stdout, stderr tail
	cmd := exec.CommandContext(ctx, path, c.Argv[1:]...)
	cmd.Env = append([]string{"PATH=" + searchPath, "LC_ALL=C", "HOME=/root", "TERM=dumb"}, c.Env...)
	cmd.Dir = "/"
	cmd.Stdin, cmd.ExtraFiles = c.Input, c.Files
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	r.started(c)
	begun := time.Now()
	err = cmd.Run()
	result := Result{Stdout: c.redact(stdout.String()), Stderr: c.redact(stderr.String()), Code: cmd.ProcessState.ExitCode()}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		err = &CommandError{Argv: c.Argv, Code: result.Code, Output: quote(result), Err: err}
	}
	r.finished(c, result, err, time.Since(begun))
	return result, err
}

func (c Command) redact(text string) string {
	for _, secret := range c.Secrets {
		text = strings.ReplaceAll(text, secret, "(redacted)")
	}
	return text
}

func (r *Runner) started(c Command) {
	if c.Reads {
		r.Changes.Read()
		return
	}
	r.Changes.Command()
	r.Log.Info("command started", "argv", c.Argv)
}

// finished logs every command that changes something. It logs commands that only read at
// debug level, because they often fail as expected.
func (r *Runner) finished(c Command, result Result, err error, took time.Duration) {
	took = took.Round(time.Millisecond)
	switch {
	case c.Reads:
		r.Log.Debug("read-only command finished", "argv", c.Argv, "code", result.Code, "took", took)
	case err != nil:
		r.Log.Warn("command failed", "argv", c.Argv, "took", took, "error", err)
	default:
		r.Log.Info("command finished", "argv", c.Argv, "took", took)
	}
}

// ProgramDirectories are those in which programs are found, in their order.
func ProgramDirectories() []string { return strings.Split(searchPath, ":") }

// find finds a program in searchPath; it ignores this process's own PATH.
func find(name string) (string, error) {
	for dir := range strings.SplitSeq(searchPath, ":") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, errNotInstalled)
}

func installed(name string) bool {
	_, err := find(name)
	return err == nil
}

// quote is the end of what a program printed, on one line.
func quote(r Result) string {
	text := strings.TrimSpace(r.Stdout)
	if errors := strings.TrimSpace(r.Stderr); errors != "" {
		text = strings.TrimSpace(text + "\n" + errors)
	}
	const longest = 1500
	if len(text) > longest {
		text = "…" + strings.ToValidUTF8(text[len(text)-longest:], "")
	}
	return strings.Join(strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' }), " | ")
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

const tailSize = 256 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }
