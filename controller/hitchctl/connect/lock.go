package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// Lock waits until no other hitchctl changes the context file, and keeps others from it until
// unlock is called or the process ends. A change begins with reading the file after that. It makes the
// file's directory, and refuses a path at which no file can be written. The lock is a file of its
// own, because the context file is replaced, and it is gone afterwards.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	if path, err = durable.Destination(path); err != nil {
		return nil, err
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		current, err := lock(ctx, f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if current {
			return func() {
				_ = os.Remove(name) // while it is locked: so nobody else's is removed
				_ = f.Close()
			}, nil
		}
		_ = f.Close() // its holder has removed it
	}
}

// lock waits for the lock of an open file, and says whether its name still has that file.
func lock(ctx context.Context, f *os.File) (current bool, err error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	if uid := durable.Owner(mine); uid != os.Geteuid() {
		return false, fmt.Errorf("%s belongs to user %d, expected user %d: remove it, or choose a directory of your own", f.Name(), uid, os.Geteuid())
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	select {
	case err := <-locked:
		if err != nil {
			return false, err
		}
	case <-ctx.Done():
		return false, fmt.Errorf("another hitchctl has held %s until now: %w", f.Name(), ctx.Err())
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, there), nil
}
