package lab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

const volumeID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"

// writesAFile is user_data whose effect can be seen.
var writesAFile = []byte(`#cloud-config
write_files:
- {path: /root/written, content: "by cloud-init\n"}
runcmd:
- [sh, -c, "echo ran >> /root/ran"]
`)

// execute runs a program on a node that has to succeed.
func execute(t *testing.T, n lab.Node, argv ...string) string {
	t.Helper()
	out, err := n.Exec(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func newDisk(t *testing.T, l *lab.Lab, id string) lab.Disk {
	t.Helper()
	d, err := l.NewDisk(id, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// traces lists what a lab would leave on the host: anything that carries its
// folder or id.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	id := filepath.Base(dir)
	var found []string
	grep := func(kind, text string) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, id) {
				found = append(found, kind+": "+strings.TrimSpace(line))
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	grep("mount", string(mounts))
	netns, _ := exec.CommandContext(t.Context(), "ip", "netns", "list").Output()
	grep("network namespace", string(netns))
	loops, _ := exec.CommandContext(t.Context(), "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").Output()
	grep("loop device", string(loops))
	processes, _ := exec.CommandContext(t.Context(), "ps", "-e", "-ww", "-o", "pid,args").Output()
	grep("process", string(processes))
	groups, _ := exec.CommandContext(t.Context(), "find", "/sys/fs/cgroup", "-maxdepth", "2", "-type", "d").Output()
	grep("control group", string(groups))
	if _, err := os.Stat(dir); err == nil {
		found = append(found, "folder: "+dir)
	}
	return found
}

// leavesNothing closes a lab and fails if something of it is left.
func leavesNothing(t *testing.T, l *lab.Lab) {
	t.Helper()
	if len(traces(t, l.Dir())) < 4 {
		t.Errorf("while the lab is open traces finds too little: this test would see nothing: %q", traces(t, l.Dir()))
	}
	began := time.Now()
	must(t, l.Close())
	t.Logf("closed in %.1f s", time.Since(began).Seconds())
	if left := traces(t, l.Dir()); len(left) > 0 {
		t.Errorf("Close left:\n%s", strings.Join(left, "\n"))
	}
	must(t, l.Close())
}

// step logs how long a part of a test took.
func step(t *testing.T, what string, do func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	if err := do(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("%s: %.2f s", what, time.Since(began).Seconds())
}
