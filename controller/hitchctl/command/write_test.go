package command

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that a person names is written through a link. What is no file stays what it is, and no
// directory is made.
func TestANamedFileIsWrittenWhereItIs(t *testing.T) {
	for name, write := range map[string]func(path string) error{
		"a file with a secret": func(path string) error { return writePrivate(path, []byte("new")) },
		"a backup": func(path string) error {
			return writeWhole(path, func(f *os.File) error { _, err := f.WriteString("new"); return err })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
			if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("file", link), syscall.Mkfifo(pipe, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := write(link); err != nil {
				t.Error(err)
			}
			to, err := os.Readlink(link)
			if got, readErr := os.ReadFile(file); err != nil || to != "file" || string(got) != "new" {
				t.Errorf("the link leads to %q (%v), and the file has %q (%v)", to, err, got, readErr)
			}
			if err := write(pipe); err == nil {
				t.Error("a pipe is written like a file")
			}
			if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
				t.Errorf("of the pipe is left: %v, %v", info, err)
			}
			if err := write(filepath.Join(dir, "none", "file")); err == nil {
				t.Error("a file is written into a directory that is not there")
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
				t.Errorf("in the directory: %v, %v", entries, err)
			}
		})
	}
}
