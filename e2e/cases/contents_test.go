package cases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

func putBytes(t *testing.T, image string, b Bytes) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(b.Text), b.Offset); err != nil {
		t.Fatal(err)
	}
}

func hostCommand(t *testing.T, argv ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}
