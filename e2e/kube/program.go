package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/process"
)

const (
	readyLimit = 3 * time.Minute // enough on a busy machine; 3 s are usual
	stopLimit  = 30 * time.Second
)

// Program is one program of a cluster. Its methods are not to be called side by side.
type Program struct {
	// Name of the program, such as etcd.
	Name string
	// LogFile is its log, of all its lives.
	LogFile string

	argv    []string
	cluster *Cluster
	ready   func(context.Context) error // nil: it has no such check
	running *process.Process
}

// Start starts it, also again after Stop or Kill, and returns when it is ready.
// If it ends before, or is not ready in time, the error holds the end of its log.
func (p *Program) Start(ctx context.Context) error {
	if p.running != nil {
		return fmt.Errorf("%s runs already", p.Name)
	}
	log, err := os.OpenFile(p.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := p.cluster.command(context.Background(), p.argv...) // it outlives ctx
	cmd.Stdout, cmd.Stderr = log, log
	if p.running, err = process.Start(cmd); err != nil {
		p.running = nil
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	if err := p.waitReady(ctx); err != nil {
		p.Kill()
		return fmt.Errorf("%s: %w; its log %s ends with:\n%s", p.Name, err, p.LogFile, p.logTail())
	}
	return nil
}

func (p *Program) waitReady(ctx context.Context) error {
	if p.ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		notReady := p.ready(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case <-p.running.Ended():
			return fmt.Errorf("it ended before it was ready: %w", cmp.Or(p.running.How(), errors.New("exit status 0")))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready (%w): %w", notReady, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Stop ends it in order, or kills it if that takes too long. It need not run.
func (p *Program) Stop() {
	if p.running == nil {
		return
	}
	_ = p.running.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.running.Ended():
		p.running = nil
	case <-time.After(stopLimit):
		p.Kill()
	}
}

// Kill ends it between two instructions. It need not run.
func (p *Program) Kill() {
	if p.running == nil {
		return
	}
	_ = p.running.Process.Kill()
	<-p.running.Ended()
	p.running = nil
}

// PID of the running program; 0 when it has ended.
func (p *Program) PID() int {
	if p.running == nil {
		return 0
	}
	select {
	case <-p.running.Ended():
		return 0
	default:
		return p.running.Process.Pid
	}
}

// logTail is the end of the log.
func (p *Program) logTail() []byte {
	log, _ := os.ReadFile(p.LogFile)
	return log[max(0, len(log)-4000):]
}

// command is a program of the cluster, or kubectl, run where the cluster runs. It does not
// know the user's own clusters.
func (c *Cluster) command(ctx context.Context, argv ...string) *exec.Cmd {
	argv = append([]string{c.Binary(argv[0])}, argv[1:]...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if c.o.Lab != nil {
		cmd = c.o.Lab.Command(ctx, argv...)
	}
	cmd.Dir = c.o.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.o.Dir, "KUBECONFIG=" + filepath.Join(c.o.Dir, adminFile)}
	return cmd
}
