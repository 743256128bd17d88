package cases

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// fill writes what the case says onto the disk's file.
func fill(t *testing.T, disk lab.Disk, contents []Content) {
	t.Helper()
	for _, c := range contents {
		switch {
		case len(c.Make) > 0:
			argv := append([]string{}, c.Make...)
			for i, word := range argv {
				argv[i] = strings.ReplaceAll(word, "ASSIGNED", api.FilesystemUUID(disk.VolumeID))
			}
			hostCommand(t, append(argv, disk.Path)...)
		case len(c.Files) > 0:
			putFiles(t, disk.Path, c.Files)
		case len(c.Crash) > 0:
			crash(t, disk, c.Crash)
		case c.Bytes != nil:
			putBytes(t, disk.Path, *c.Bytes)
		default:
			t.Fatalf("a content of %s says nothing", disk.VolumeID)
		}
	}
}

func putFiles(t *testing.T, image string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		local := filepath.Join(t.TempDir(), "content")
		if err := os.WriteFile(local, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		hostCommand(t, "debugfs", "-w", "-R", "write "+local+" "+path, image)
	}
}

// crash mounts the filesystem, writes the files, and keeps of the disk what it holds
// then, while it is still mounted.
func crash(t *testing.T, disk lab.Disk, files map[string]string) {
	t.Helper()
	dir, after := t.TempDir(), filepath.Join(t.TempDir(), "after")
	hostCommand(t, "mount", "-o", "loop", disk.Path, dir)
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
		if err := os.Rename(after, disk.Path); err != nil {
			t.Error(err)
		}
	}()
	for name, text := range files {
		putFile(t, filepath.Join(dir, name), text)
	}
	if err := disk.Snapshot(t.Context(), after); err != nil {
		t.Error(err)
	}
}

// putFile returns when the file is on the disk for good.
func putFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
	if err := f.Sync(); err != nil {
		t.Error(err)
	}
}

func putBytes(t *testing.T, image string, b Bytes) {
	t.Helper()
	content, err := b.content()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if end := b.Offset + int64(len(content)); end > info.Size() {
		t.Fatalf("content up to byte %d, and the disk has %d", end, info.Size())
	}
	if _, err := f.WriteAt(content, b.Offset); err != nil {
		t.Fatal(err)
	}
}

func (b Bytes) content() ([]byte, error) {
	switch {
	case b.Text != "":
		return []byte(b.Text), nil
	case b.Hex != "":
		return hex.DecodeString(strings.Join(strings.Fields(b.Hex), ""))
	case b.Zeros > 0:
		return make([]byte, b.Zeros), nil
	case b.Random > 0:
		content := make([]byte, b.Random)
		_, err := rand.NewChaCha8([32]byte{}).Read(content)
		return content, err
	}
	return nil, fmt.Errorf("bytes at %d: none are given", b.Offset)
}

func hostCommand(t *testing.T, argv ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}
