package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LockFile is locked by the process that converges this machine. It is not in the state
// directory, because locking writes it, and a converged agent writes no state.
const LockFile = "/run/nodehitch/agent.lock"

// Locked says which other process converges this machine.
type Locked struct{ Path, Holder string }

func (l *Locked) Error() string {
	return fmt.Sprintf("%s is held by %s; only one process may change the machine at a time", l.Path, l.Holder)
}

// Lock is kept until it is released or the process ends.
type Lock struct{ f *os.File }

// TakeLock makes this process the one that changes the machine; who describes it
// to others. *Locked if another process has the lock. It does not wait.
func TakeLock(path, who string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		// With a full filesystem the description is missing; the lock is taken nevertheless.
		_ = describe(f, who)
		return &Lock{f}, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, &Locked{Path: path, Holder: holder(path)}
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.f.Close() }

func describe(f *os.File, who string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f, "%s (pid %d)\n", who, os.Getpid())
	return err
}

func holder(path string) string {
	content, err := os.ReadFile(path)
	if who := strings.TrimSpace(string(content)); err == nil && who != "" {
		return who
	}
	return "another process"
}
