// Package process starts programs that do not outlive the test that started them,
// also when its time runs out and no cleanup runs.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a program that was started.
type Process struct {
	*exec.Cmd
	ended chan struct{}
	how   error // written before ended is closed
}

// Start starts a command. The kernel kills it with the thread that started it, so
// that thread stays until the end.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Process{Cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.how = cmd.Wait()
		}
		close(p.ended)
	}()
	return p, <-started
}

// Ended is closed when it has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// How waits for its end and says how it was: what exec.Cmd.Wait returns.
func (p *Process) How() error {
	<-p.ended
	return p.how
}
