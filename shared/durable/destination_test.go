package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// No name makes a file of a device or a pipe, nor a directory.
func TestDestination(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	written, err := os.Create(at("written"))
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	open := fmt.Sprint("/dev/fd/", written.Fd()) // as /dev/stdout is, if it is a file
	for _, err := range []error{
		os.WriteFile(at("file"), nil, 0o600), os.Symlink("file", at("link")), os.Symlink("gone", at("nowhere")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("link to a pipe")), os.Symlink("/dev/null", at("link to a device")),
		os.Symlink(open, at("link to what is open")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ path, want, refused string }{
		"a file":                {path: at("file"), want: at("file")},
		"a link":                {path: at("link"), want: at("file")},
		"nothing":               {path: at("new"), want: at("new")},
		"a link to nothing":     {path: at("nowhere"), refused: "is a link to nothing"},
		"a pipe":                {path: at("pipe"), refused: "is no file"},
		"a link to a pipe":      {path: at("link to a pipe"), refused: "is no file"},
		"a device":              {path: "/dev/null", refused: "is no file"},
		"a link to a device":    {path: at("link to a device"), refused: "is no file"},
		"a directory":           {path: dir, refused: "is no file"},
		"no directory":          {path: at("none/file"), refused: "no such file or directory; make the directory"},
		"what is open":          {path: open, refused: "is a file that a process has open"},
		"a link to it":          {path: at("link to what is open"), refused: "is a file that a process has open"},
		"a file as a directory": {path: at("file/file"), refused: "not a directory"},
	} {
		got, err := durable.Destination(c.path)
		switch {
		case c.refused == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %q, %v, want an error with %q", name, got, err, c.refused)
		}
	}
	if _, err := os.Stat(at("none")); err == nil {
		t.Error("a directory was made")
	}
}
