package durable_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// entries are the names in the directory of path.
func entries(t *testing.T, path string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

func TestReplacesContentAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		content string
		mode    fs.FileMode
	}{{"a longer text", 0o644}, {"b", 0o600}, {"", 0o640}} {
		if err := durable.Write(path, []byte(c.content), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(got) != c.content || info.Mode() != c.mode {
			t.Errorf("%q, %v, %v; want %q, %v", got, info.Mode(), err, c.content, c.mode)
		}
	}
	if names := entries(t, path); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

// A content that ends with an error, as an archive that is damaged, replaces nothing.
func TestWritesFromAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	large := strings.Repeat("x", 3<<20)
	if err := durable.WriteFrom(path, strings.NewReader(large), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := durable.WriteFrom(path, io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken)), 0o600)
	got, _ := os.ReadFile(path)
	info, _ := os.Stat(path)
	if !errors.Is(err, broken) || string(got) != large || info.Mode() != 0o755 || len(entries(t, path)) != 1 {
		t.Errorf("%v; %d bytes, mode %v, in the directory %q", err, len(got), info.Mode(), entries(t, path))
	}
}

// What a process left that was killed while it wrote is neither read nor kept. What another
// process writes just now stays, and so does what only looks like it.
func TestRestOfAKilledWriterIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	stay := []string{".file.1.2.new", ".file.config.new", ".other.17.new", ".file.18.new", ".file.19.new"}
	for _, name := range append([]string{".file.17.new"}, stay[:4]...) {
		if err := os.WriteFile(beside(name), []byte("half of something longer"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.Open(beside(".file.18.new"))
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if err := errors.Join(syscall.Flock(int(written.Fd()), syscall.LOCK_EX), syscall.Mkfifo(beside(".file.19.new"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(got) != "whole" || info.Mode() != 0o600 {
		t.Errorf("%q, %v, %v", got, info.Mode(), err)
	}
	want := append(stay, "file")
	if names := entries(t, path); !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(want))) {
		t.Errorf("in the directory: %v, expected %v", names, want)
	}
}

// In a directory of all users, another user makes first what may be the unfinished file, and
// keeps it open.
func TestNobodyElseHasTheFileThatASecretIsWrittenTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for files of another user")
	}
	path := filepath.Join(t.TempDir(), "file")
	var opened []*os.File
	for _, name := range []string{".file.new", ".file.17.new", "..file.new.17.new"} {
		name = filepath.Join(filepath.Dir(path), name)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Chown(65534, 65534); err != nil {
			t.Fatal(err)
		}
		opened = append(opened, f)
	}
	if err := durable.Write(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range opened {
		if got, err := io.ReadAll(f); err != nil || len(got) > 0 {
			t.Errorf("the other user reads %q, %v", got, err)
		}
	}
	if info, err := os.Lstat(path); err != nil || durable.Owner(info) != 0 || info.Mode() != 0o600 {
		t.Errorf("%+v, %v", info, err)
	}
	if names := entries(t, path); len(names) != 4 {
		t.Errorf("in the directory: %v, expected that what belongs to another user stays", names)
	}
}

// A server of NFS may give all new files to one user.
func TestAFileSystemThatIgnoresOwnersGetsNoSecret(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for files of another user")
	}
	directory := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(directory), 0o711), os.Chmod(directory, 0o777)); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		runtime.LockOSThread() // which ends with this goroutine
		if err := unix.Setfsuid(65534); err != nil {
			written <- err
			return
		}
		written <- durable.Write(filepath.Join(directory, "file"), []byte("secret"), 0o600)
	}()
	if err := <-written; err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("%v", err)
	}
	if names := entries(t, filepath.Join(directory, "file")); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestADeviceIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "null")
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip("needs root, to make a device: ", err)
	}
	if err := durable.Write(path, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), "it is a device, expected a file") {
		t.Error(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeCharDevice == 0 || len(entries(t, path)) != 1 {
		t.Errorf("%v, %v, in the directory: %v", info.Mode(), err, entries(t, path))
	}
}

func TestFailureLeavesTheOldContentAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.Mkdir(path, 0o700); err != nil { // a directory cannot be replaced
		t.Fatal(err)
	}
	if err := durable.Write(path, []byte("x"), 0o600); err == nil {
		t.Error("replaced a directory")
	}
	if names := entries(t, path); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestAFullDiskKeepsTheOldContentAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a file system that is full")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, "file")
	if err := durable.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, make([]byte, 128<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v; expected that the disk is full", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" || len(entries(t, path)) != 1 {
		t.Errorf("%q, %v, and in the directory %v; expected the old content alone", got, err, entries(t, path))
	}
}

func TestWritersDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				if err := durable.Write(path, bytes.Repeat([]byte{byte('a' + i)}, 5000+i), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	got, err := os.ReadFile(path)
	if err != nil || len(got) < 5000 || len(bytes.Trim(got, string(got[:1]))) != 0 || len(got) != 5000+int(got[0]-'a') {
		t.Errorf("%d bytes of more than one writer, %v", len(got), err)
	}
}
