// Command nfswriter writes to a mounted directory in the ways that an NFS server has to
// restore after a restart, and reports each success to whoever listens at an address, one
// line of JSON each:
//
//	nfswriter DIRECTORY ADDRESS
//
// It never ends by itself. What an operation answers is reported by the error's name.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/cluster/nfswriter/report"
)

// pause is between two operations of a kind: fast enough to see when a server is back, and
// slow enough for an emulated machine.
const pause = 50 * time.Millisecond

func main() {
	fmt.Fprintln(os.Stderr, "nfswriter:", run(context.Background(), os.Args[1:]))
	os.Exit(1)
}

// run writes until nobody listens, and returns why it has ended.
func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%d arguments; expected the directory and the address for the reports", len(args))
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", args[1])
	if err != nil {
		return err
	}
	w := &writers{directory: args[0], reports: json.NewEncoder(conn)}
	var all sync.WaitGroup
	for kind, prepare := range map[report.Kind]func() (operation, error){
		report.Append: w.appends, report.Open: w.opens, report.Lock: w.holds, report.Rename: w.renames, report.Deleted: w.keepsDeleted,
	} {
		do, err := prepare()
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		all.Go(func() { w.repeat(kind, do) })
	}
	all.Wait()
	return errors.New("nobody listens to the reports")
}

// operation is the n-th of its kind. note is what is to be known besides its success.
type operation func(n int64) (note string, err error)

type writers struct {
	directory string

	mu      sync.Mutex
	reports *json.Encoder
}

func (w *writers) file(name string) string { return filepath.Join(w.directory, name) }

// repeat does an operation again and again until nobody listens. After an error it goes on: what
// does not recover is seen by the reports that follow.
func (w *writers) repeat(kind report.Kind, do operation) {
	for n := int64(0); ; n++ {
		note, err := do(n)
		r := report.Report{Kind: kind, N: n, Note: note}
		if err != nil {
			r.Error, r.Note = errorName(err), err.Error()
		}
		if w.report(r) != nil {
			return
		}
		time.Sleep(pause)
	}
}

func (w *writers) report(r report.Report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports.Encode(r)
}

// errorName is such as EIO or ESTALE.
func errorName(err error) string {
	var number unix.Errno
	if errors.As(err, &number) {
		return cmp.Or(unix.ErrnoName(number), number.Error())
	}
	return "error"
}

// appends adds a record to a file that stays open, and counts once it is on the server's disk.
func (w *writers) appends() (operation, error) {
	f, err := os.OpenFile(w.file(report.AppendFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	return func(n int64) (string, error) {
		_, err := f.WriteString(report.Record(n))
		return "", cmp.Or(err, f.Sync())
	}, err
}

// opens makes a new file each time, which the server does not allow before its grace is over.
func (w *writers) opens() (operation, error) {
	return func(n int64) (string, error) {
		f, err := os.OpenFile(w.file(fmt.Sprintf("opened-%d", n%8)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(report.Record(n))
		return "", cmp.Or(err, f.Close())
	}, nil
}

// holds locks a file once, and writes to it under the lock. The kernel answers EIO if the lock
// was lost.
func (w *writers) holds() (operation, error) {
	f, err := os.OpenFile(w.file(report.LockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	return func(n int64) (string, error) { return "", w.writesAndReads(f, n) }, err
}

// keepsDeleted writes to a file that was deleted while it was open.
func (w *writers) keepsDeleted() (operation, error) {
	f, err := os.OpenFile(w.file("deleted"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	last := int64(-1)
	return func(n int64) (string, error) {
		if last >= 0 { // what the operation before wrote is still there
			if err := read(f, last); err != nil {
				return "", err
			}
		}
		last = n
		return "", w.writesAndReads(f, n)
	}, os.Remove(f.Name())
}

// writesAndReads writes a record to the beginning of the file, and reads it from the server.
func (w *writers) writesAndReads(f *os.File, n int64) error {
	if _, err := f.WriteAt([]byte(report.Record(n)), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return read(f, n)
}

func read(f *os.File, n int64) error {
	// What the client has in memory says nothing of the server.
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	got := make([]byte, len(report.Record(n)))
	if _, err := f.ReadAt(got, 0); err != nil {
		return err
	}
	if !bytes.Equal(got, []byte(report.Record(n))) {
		return fmt.Errorf("%s holds %q, expected %q", f.Name(), got, report.Record(n))
	}
	return nil
}

// renames gives a file another name each time. A client that got no answer asks again; a server
// that had renamed the file before it ended then answers ENOENT, which NFS cannot avoid: the
// file has its new name.
func (w *writers) renames() (operation, error) {
	name := func(n int64) string { return w.file(fmt.Sprintf("renamed-%d", n)) }
	last := int64(0)
	return func(n int64) (string, error) {
		note, err := "", os.Rename(name(last), name(n+1))
		if errors.Is(err, os.ErrNotExist) {
			if _, now := os.Stat(name(n + 1)); now == nil {
				note, err = report.RenamedBefore, nil
			}
		}
		if err == nil {
			last = n + 1
		}
		return note, err
	}, os.WriteFile(name(0), []byte(report.Record(0)), 0o644)
}
