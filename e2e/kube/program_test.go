package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scripted is a program of a cluster that is a shell script instead, and that is
// never ready.
func scripted(t *testing.T, script string) *Program {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{o: Options{Dir: dir}, binaries: &Binaries{Dir: dir}}
	p := c.program([]string{"etcd"}, func(context.Context) error { return errors.New("connection refused") })
	t.Cleanup(p.Kill)
	return p
}

func TestAProgramThatEndsSaysWhy(t *testing.T) {
	p := scripted(t, "echo the disk is full; exit 3")
	err := p.Start(t.Context())
	for _, want := range []string{"etcd: it ended before it was ready", "exit status 3", p.LogFile, "the disk is full"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	if p.PID() != 0 {
		t.Error("it has a pid")
	}
}

func TestAProgramThatIsNeverReadyIsEnded(t *testing.T) {
	p := scripted(t, "echo $$ > pid; exec sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	p.ready = func(context.Context) error {
		if pid, err := os.ReadFile(filepath.Join(p.cluster.o.Dir, "pid")); err == nil && len(pid) > 0 {
			cancel()
		}
		return errors.New("connection refused")
	}
	err := p.Start(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the error is %v", err)
	}
	pid, _ := os.ReadFile(filepath.Join(p.cluster.o.Dir, "pid"))
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Errorf("process %s still runs", pid)
	}
}
