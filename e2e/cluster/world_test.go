package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const suite = "cluster"

// The spec's request, and the folder of the VNF package that it speaks of.
const (
	body       = "../../shared/params/testdata/persistent-volumes.json"
	packageDir = "testdata/package"
)

// world is a controller and a Kubernetes API in a lab.
type world struct {
	// t is the test that goes on now; the world lives as long as whole does.
	t, whole *testing.T
	*site.Site
	kube *kube.Cluster
	// control is the machine on which ansible runs, if a test has one.
	control *machine
	// lives counts the Kubernetes APIs.
	lives int
	last  netip.Addr // that was given to a server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kubetest.Require(t)
	return &world{t: t, whole: t, Site: sitetest.Open(t, bin(), lab.KindNspawn, lab.KindVM), last: lab.Gateway}
}

// bin is the folder of the built binaries, which NODEHITCH_BIN may name.
func bin() string {
	if named := os.Getenv("NODEHITCH_BIN"); named != "" {
		return named
	}
	return "../../bin"
}

// newKubernetes replaces the Kubernetes API by an empty one.
func (w *world) newKubernetes() {
	w.t.Helper()
	if w.kube != nil {
		if err := w.kube.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.lives++
	w.kube = kubetest.Open(w.whole, kube.Options{Lab: w.Lab, Dir: filepath.Join(w.Lab.Dir(), fmt.Sprintf("kube-%d", w.lives))})
}

// address is one that no server has had.
func (w *world) address() netip.Addr {
	w.last = w.last.Next()
	return w.last
}

// said is what hitchctl answered.
type said struct {
	args           []string
	stdout, stderr string
	code           int
	cpu            time.Duration
}

func (s said) String() string {
	return fmt.Sprintf("hitchctl %q: exit code %d\n%s%s", s.args, s.code, s.stdout, s.stderr)
}

// hitchctl runs hitchctl to its end.
func (w *world) hitchctl(args ...string) said { return w.follow(args, func(string) {}) }

// follow runs hitchctl to its end and passes each line on as it comes. If hitchctl could
// not be run, the exit code is -1.
func (w *world) follow(args []string, onLine func(line string)) said {
	s := said{args: args}
	var stderr bytes.Buffer
	cmd := w.Command(w.t.Context(), args...)
	cmd.Stderr = &stderr
	lines, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.code, s.stderr = -1, err.Error()
		return s
	}
	in := bufio.NewReader(lines)
	for {
		line, err := in.ReadString('\n')
		s.stdout += line
		if err != nil {
			break
		}
		onLine(line)
	}
	_ = cmd.Wait() // what is wrong is in the exit code
	s.code, s.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s
}

// must runs hitchctl, which has to succeed, and returns what it printed.
func (w *world) must(args ...string) string {
	w.t.Helper()
	s := w.hitchctl(args...)
	if s.code != 0 {
		w.t.Fatal(s)
	}
	return s.stdout
}

// file writes an object into a file that hitchctl is to read.
func (w *world) file(name string, v any) string {
	w.t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	path := filepath.Join(w.t.TempDir(), name)
	if err := errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// until calls wrong until it returns no error, and fails the test in the end.
func (w *world) until(what string, wrong func() error) {
	w.t.Helper()
	sitetest.Until(w.t, what, wrong)
}
