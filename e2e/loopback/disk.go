package loopback

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// DiskDir is a folder of /var/tmp, whose content outlives a reboot (hier(7)), so that
// it is in memory on few machines only, and the name of its filesystem. The folder goes
// with the test. A filesystem in memory is refused: its fsync does nothing.
func DiskDir(t testing.TB) (dir, filesystem string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "nodehitch-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	out, err := exec.CommandContext(t.Context(), "stat", "--file-system", "--format=%T", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	filesystem = strings.TrimSpace(string(out))
	if filesystem == "tmpfs" || filesystem == "ramfs" {
		t.Fatalf("%s is in memory (%s), where writes cost nothing: nothing can be measured here", dir, filesystem)
	}
	return dir, filesystem
}
