// Package kubetest opens a Kubernetes API for a test: it skips with the reason if the
// programs are not built, and leaves nothing behind.
package kubetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// Require skips the test if the programs are not built, with the reason. In a run with the
// long cases, or one that requires the lab, they have been built, so there it fails.
func Require(t testing.TB) {
	t.Helper()
	binaries, err := kube.Find("")
	required := results.Full() || os.Getenv("NODEHITCH_LAB") == "required"
	switch {
	case (errors.Is(err, kube.ErrNotBuilt) || errors.Is(err, fs.ErrPermission)) && !required:
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	if err := binaries.Close(); err != nil {
		t.Fatal(err)
	}
}

// Open starts a cluster for a test, if Require lets it run. An empty o.Dir is a
// folder of the lab, or of the test. All of it goes when the test ends, which shows
// the ends of the logs when it has failed.
func Open(t testing.TB, o kube.Options) *kube.Cluster {
	t.Helper()
	Require(t)
	switch {
	case o.Dir != "":
	case o.Lab != nil:
		o.Dir = filepath.Join(o.Lab.Dir(), "kube")
	default:
		o.Dir = t.TempDir()
	}
	began := time.Now()
	c, err := kube.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("Kubernetes at %s is ready after %.1f s", c.URL, time.Since(began).Seconds())
	for _, p := range c.Programs() {
		t.Logf("%s: pid %d, %d MB resident", p.Name, p.PID(), Resident(t, p)>>20)
	}
	return c
}

// Replace closes a cluster of a lab, if there is one, and opens an empty one.
func Replace(t testing.TB, c *kube.Cluster, l *lab.Lab) *kube.Cluster {
	t.Helper()
	if c != nil {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp(l.Dir(), "kube-")
	if err != nil {
		t.Fatal(err)
	}
	return Open(t, kube.Options{Lab: l, Dir: dir})
}

// Resident is the memory of a running program in bytes.
func Resident(t testing.TB, p *kube.Program) int64 {
	t.Helper()
	usage, err := loopback.UsageOf(p.PID())
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return usage.Resident
}

func showLogs(t testing.TB, c *kube.Cluster) {
	t.Helper()
	for _, p := range c.Programs() {
		log, err := os.ReadFile(p.LogFile)
		t.Logf("the log of %s ends with (%v):\n%s", p.Name, err, log[max(0, len(log)-5000):])
	}
}
