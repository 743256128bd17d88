package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// How long a new build may take to say its version and to test itself, and how much of what
// it says is read.
const (
	selfTestLimit = time.Minute
	selfTestWords = 1000
)

// verify checks that a build runs on this machine, is the version that it is said to be,
// and can read the configuration and state of this agent. It gives the file the right to
// run first; its content has been compared with the digest.
func verify(ctx context.Context, path, version, configFile string) error {
	if err := runsHere(path); err != nil {
		return err
	}
	if err := executable(path); err != nil {
		return err
	}
	said, err := run(ctx, path, "version")
	if err != nil {
		return fmt.Errorf("asking the build for its version: %w", err)
	}
	if found := said[strings.LastIndexByte(said, ' ')+1:]; found != version {
		return fmt.Errorf("the build says that it is version %.64q; expected %s", found, version)
	}
	if _, err := run(ctx, path, "self-test", "--config", configFile); err != nil {
		return fmt.Errorf("the build's self-test: %w", err)
	}
	return nil
}

// executable gives the file the right to run, durably.
func executable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Chmod(0o755); err != nil {
		return err
	}
	return f.Sync()
}

// elfHead is the part of an ELF header up to the machine (elf(5)).
const elfHead = 20

// runsHere compares the ELF class, byte order and machine with those of this program.
func runsHere(path string) error {
	want, err := head("/proc/self/exe")
	if err != nil {
		return err
	}
	got, err := head(path)
	if err != nil {
		return fmt.Errorf("the build is no program: %w", err)
	}
	const class, machine = 4, 18
	if !bytes.Equal(got[:class+2], want[:class+2]) || !bytes.Equal(got[machine:], want[machine:]) {
		return fmt.Errorf("the build is no ELF program for this machine: it begins %x, expected the class and machine of %x", got, want)
	}
	return nil
}

func head(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, elfHead)
	_, err = io.ReadFull(f, b)
	return b, err
}

// run runs a command of a build, with no more of this process's environment than it needs,
// and returns what it says. Nothing of it is left when run returns.
func run(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, selfTestLimit)
	defer cancel()
	var said limited
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", fmt.Errorf("it has not ended after %s", selfTestLimit)
	}
	text := strings.TrimSpace(said.String())
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, oneLine(text))
	}
	return text, nil
}

// limited keeps the beginning of what is written.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, selfTestWords-l.Len()))])
	return len(p), nil
}

// oneLine makes what a program has said fit a line of the log.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}
