package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

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

// What a process left that was killed while it wrote is neither read nor kept.
func TestRestOfAKilledWriterIsUsedUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".file.new"), []byte("half of something longer"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(got) != "whole" || info.Mode() != 0o600 || len(entries(t, path)) != 1 {
		t.Errorf("%q, %v, %v, %v", got, info.Mode(), err, entries(t, path))
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
