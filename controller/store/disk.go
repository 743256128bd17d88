package store

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"

	"github.com/nodehitch/nodehitch/shared/api"
)

// ErrOutcomeUnknown is why a store in a file has ended: the disk did not confirm a commit, so
// that it is not known whether the disk has it. No further change is made: it could overwrite
// the one state that is known to be whole. The process must end; the next start finds the
// state before the commit or after it.
var ErrOutcomeUnknown = errors.New("the disk of the store failed while it confirmed a change, so it is not known whether it holds that change: " +
	"check the disk, then start the controller again; nothing that was acknowledged depends on that change")

// notWritten explains why a change that was complete did not come to the disk. All
// of it is rolled back. The error is a problem that the client may see.
//
// bbolt syncs twice, and its errors of a sync are bare error numbers; what fails
// before or beside it (write, truncate) leaves the state as it was.
func (b *bolt) notWritten(err error) error {
	var number syscall.Errno
	var place *fs.PathError
	detail := fmt.Sprintf("the controller's disk takes no changes (%v), so nothing of this request was kept: repair the disk under its data directory, then try again", plain(err))
	switch {
	case errors.As(err, &number) && !errors.As(err, &place), errors.Is(err, errPages):
		b.end(ErrOutcomeUnknown)
		err, detail = errors.Join(ErrOutcomeUnknown, err), "the controller's disk failed and the controller stops: check the disk, start the controller again, then check whether the request was done"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		detail = "the controller's disk is full, so nothing of this request was kept: free space under its data directory; the controller needs no restart"
	}
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable, detail), err)
}

// plain is the error without the path on the controller's machine.
func plain(err error) error {
	var place *fs.PathError
	if errors.As(err, &place) {
		return place.Err
	}
	return err
}

// guard makes an error of a panic in bbolt: on a page that was damaged after the
// start, or that cannot be read from the disk any more. The goroutine must have
// been told to panic on faults.
func guard(bucket, key string, err *error) {
	if p := recover(); p != nil {
		*err = &CorruptError{Bucket: bucket, Key: key, Err: fmt.Errorf("its page cannot be read: %v", p)}
	}
}

// faultsPanic lets faults of the memory map panic, which guard catches, until the
// function that it returns is called; else they would end the process.
func faultsPanic() (restore func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}

// Free is how many bytes the disk of a directory has left for this process.
func Free(directory string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(directory, &disk); err != nil {
		return 0, fmt.Errorf("reading how full the disk is: %w", err)
	}
	return int64(disk.Bavail) * disk.Bsize, nil //nolint:unconvert // the types differ between architectures
}
