package trust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// asNobody gives the folder of controller.yaml to a user without any privilege and
// runs the controller as that one.
const asNobody = `folder="$(dirname "$4")" && chown -R 65534:65534 "$folder" && chmod go+x "$folder/.." && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`

// Root cannot see whether a process is dumpable: files in /proc of a process that is not
// belong to root, and those of root's processes do anyway.
func TestMemoryOfTheController(t *testing.T) {
	loopback.RequireRoot(t)
	binary := publicCopy(t, filepath.Join(loopback.Bin(t), "nodehitch-controller"))
	w := &target{Controller: loopback.Open(t, loopback.Options{Binary: binary, Wrap: []string{"sh", "-c", asNobody, "sh"}}), t: t}
	a := begin(t, w, "core dumps: memory", "the controller, run by a user without privilege, is not dumpable: "+
		"other processes of that user read neither its memory nor its environment")
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", w.PID())); err != nil || info.Sys().(*syscall.Stat_t).Uid != nobody {
		t.Fatalf("it does not run as that user: %v (%v)", info, err)
	}
	files := []string{"mem", "environ", "auxv", "fd/0"}
	for _, name := range files {
		path := fmt.Sprintf("/proc/%d/%s", w.PID(), name)
		f, err := asUser(nobody, func() (*os.File, error) { return os.Open(path) })
		switch {
		case err == nil:
			a.c.Unauthorised(1)
			t.Errorf("%s is open to it", path)
			f.Close()
		case errors.Is(err, os.ErrPermission):
			a.c.Unauthorised(0)
		default:
			t.Errorf("%s: %v", path, err)
		}
	}
	a.c.Figure("files tried", "%d", len(files))
}

// publicCopy is a copy of a program that every user may run.
func publicCopy(t *testing.T, program string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "nodehitch-trust-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(folder, filepath.Base(program))
	content, err := os.ReadFile(program)
	if err := errors.Join(err, os.Chmod(folder, 0o755), os.WriteFile(path, content, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
