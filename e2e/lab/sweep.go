package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// sweep removes what runs of dead processes left under parent. A run is dead
// if the lock of its folder is free: the kernel releases it however the process ended.
// What cannot be removed is logged and left for the next time.
func sweep(parent string, log func(string, ...any)) {
	runs, _ := filepath.Glob(filepath.Join(parent, "*/"))
	for _, dir := range runs {
		lock, err := lockFile(filepath.Join(dir, lockName), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue // alive
		}
		if err := sweepOne(dir); err != nil {
			log("lab: leftovers of a dead run in %s: %v", dir, err)
		} else {
			log("lab: swept a dead run, %s", dir)
		}
		lock.Close()
	}
}

func sweepOne(dir string) error {
	dead, err := loadLedger(dir)
	if err != nil {
		return err
	}
	if err := dead.undo(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// lockFile opens (or makes) a file and locks it; closing it gives the lock back.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}
