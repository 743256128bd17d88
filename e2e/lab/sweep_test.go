package lab_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
)

// A run that is killed leaves its machines running; the next Open takes them
// away, and leaves a run alone that is alive.
func TestOpenSweepsDeadRuns(t *testing.T) {
	if os.Getenv("LAB_TEST_TO_BE_KILLED") != "" {
		beKilled(t)
	}
	alive := labtest.Open(t, lab.KindNspawn)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenSweepsDeadRuns$")
	child.Env = append(os.Environ(), "LAB_TEST_TO_BE_KILLED=yes")
	stdin, err := child.StdinPipe() // what it waits for
	must(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	dir := strings.TrimSpace(line)
	must(t, child.Process.Kill())
	if child.Wait() == nil {
		t.Fatal("the child ended before it was killed")
	}
	if found := traces(t, dir); len(found) < 5 {
		t.Fatalf("the killed run in %s left too little: this test would see nothing: %q", dir, found)
	}

	next := labtest.Open(t, lab.KindNspawn)
	if left := traces(t, dir); len(left) > 0 {
		t.Errorf("left after the sweep:\n%s", strings.Join(left, "\n"))
	}
	for _, l := range []*lab.Lab{alive, next} {
		if len(traces(t, l.Dir())) == 0 {
			t.Error("the sweep took a living lab away")
		}
	}
}

// beKilled runs in the child: a lab with a machine and a disk, then no end.
func beKilled(t *testing.T) {
	l, err := lab.Open(t.Context(), lab.Options{})
	must(t, err)
	_, err = l.Nspawn(t.Context(), lab.Spec{Name: "orphan", Disks: []lab.Disk{newDisk(t, l, volumeID)}})
	must(t, err)
	fmt.Println(l.Dir())
	_, err = os.Stdin.Read(make([]byte, 1))
	t.Fatalf("was not killed, %v", err)
}
