package loopback

import (
	"os/exec"
	"runtime"
	"syscall"
)

// process is one that does not outlive this one, also when a test's time runs out
// and no cleanup runs.
type process struct {
	*exec.Cmd
	ended chan struct{} // closed when it has
	how   error         // what Wait returned; read it after ended
}

// start starts it. The kernel kills it with the thread that started it, so that
// thread stays until the end.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{Cmd: cmd, ended: make(chan struct{})}
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
