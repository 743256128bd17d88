package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func runner(t *testing.T) (*Runner, *bytes.Buffer) {
	t.Helper()
	if !installed("sh") || !installed("env") {
		t.Skip("needs sh and env")
	}
	log := &bytes.Buffer{}
	return &Runner{Log: slog.New(slog.NewTextHandler(log, nil)), Changes: &Changes{}}, log
}

func TestCommandHasAFixedEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	r, _ := runner(t)
	got, err := r.Run(t.Context(), Command{Argv: []string{"env"}, Env: []string{"A=1"}, Reads: true})
	want := "PATH=" + searchPath + "\nLC_ALL=C\nHOME=/root\nTERM=dumb\nA=1\n"
	if err != nil || got.Stdout != want {
		t.Errorf("got %q, %v; want %q", got.Stdout, err, want)
	}
	if c := r.Changes.Count(); c.Reads != 1 || !c.None() {
		t.Errorf("counted %s", c)
	}
}

// A program may end before it has read its input: its own error counts.
func TestCommandReadsItsInput(t *testing.T) {
	r, _ := runner(t)
	if got, err := r.Run(t.Context(), Command{Argv: []string{"sh", "-c", "cat; cat"}, Input: strings.NewReader("text")}); got.Stdout != "text" || err != nil {
		t.Errorf("it read %q, %v", got.Stdout, err)
	}
	var failed *CommandError
	_, err := r.Run(t.Context(), Command{Argv: []string{"sh", "-c", "echo no >&2; exit 3"}, Input: strings.NewReader(strings.Repeat("x", 1<<20))})
	if !errors.As(err, &failed) || failed.Code != 3 || failed.Output != "no" {
		t.Errorf("got %v", err)
	}
}

func TestCommandThatFailsSaysWhatItPrinted(t *testing.T) {
	r, log := runner(t)
	result, err := r.Run(t.Context(), Command{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}})
	var failed *CommandError
	if !errors.As(err, &failed) || Refusal(err) != failed || failed.Code != 7 || result.Code != 7 || result.Stdout != "out\n" {
		t.Fatalf("got %+v, %v", result, err)
	}
	if !strings.HasSuffix(err.Error(), "exit status 7: out | err") {
		t.Errorf("got %q", err)
	}
	for _, want := range []string{"command started", "command failed", "exit 7"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	if r.Changes.Count().Commands != 1 {
		t.Errorf("counted %s", r.Changes.Count())
	}
}

func TestCommandKeepsNoSecrets(t *testing.T) {
	r, log := runner(t)
	c := through(Proxy{HTTP: "http://user1:password1@host1:port1"}, Command{Argv: []string{"sh", "-c", `p=${http_proxy#http://}; echo "cannot reach $http_proxy as ${p%@*} / ${p#*:}"; exit 1`}})
	result, err := r.Run(t.Context(), c)
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range []string{result.Stdout, err.Error(), log.String()} {
		if strings.Contains(text, "password1") {
			t.Errorf("the password is in %q", text)
		}
	}
	if !strings.Contains(err.Error(), "cannot reach (redacted)") {
		t.Errorf("got %q", err)
	}
}

func TestCommandOutputIsBounded(t *testing.T) {
	r, _ := runner(t)
	result, err := r.Run(t.Context(), Command{Argv: []string{"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end; exit 1"}})
	if len(result.Stdout) > tailSize || !strings.HasSuffix(result.Stdout, "xend\n") {
		t.Errorf("kept %d bytes", len(result.Stdout))
	}
	if err == nil || len(err.Error()) > 2000 || !strings.HasSuffix(err.Error(), "xend") {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// What a program has started dies with it.
func TestCommandIsKilledWithItsChildren(t *testing.T) {
	r, _ := runner(t)
	ctx, cancel := context.WithCancel(t.Context())
	pipe, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	done := make(chan error)
	go func() {
		_, err := r.Run(ctx, Command{Argv: []string{"sh", "-c", "sleep 600 & echo $! >&3; wait"}, Files: []*os.File{write}})
		done <- err
	}()
	text := make([]byte, 20)
	n, err := pipe.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	write.Close()
	// The child has the pipe open too: its end is the end of the pipe.
	if err := pipe.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the child lives")
	}
}

func TestCommandHasALimit(t *testing.T) {
	r, _ := runner(t)
	_, err := r.Run(t.Context(), Command{Argv: []string{"sleep", "600"}, Limit: 50 * time.Millisecond})
	if err == nil || Refusal(err) != nil || !strings.Contains(err.Error(), "it took longer than 50ms") {
		t.Errorf("got %v", err)
	}
}

func TestCommandThatIsNotInstalled(t *testing.T) {
	r, _ := runner(t)
	_, err := r.Run(t.Context(), Command{Argv: []string{"no-such-program"}})
	if !errors.Is(err, errNotInstalled) || Refusal(err) != nil {
		t.Errorf("got %v", err)
	}
}
