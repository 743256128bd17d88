// Package supervisor does with an agent what nodehitch-agent.service does, for tests with
// agents as processes of this machine, where systemd does not run: it runs the previous
// build before each start, waits for READY, watches the watchdog, starts the agent again
// when it ends, and answers the agent's calls of systemd-run and systemctl. What it runs and
// how long it waits is in the unit itself.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
)

// Options of a supervised agent.
type Options struct {
	// Agent as of loopback; its Binary is copied into a directory of its own, so that it
	// can be replaced.
	Agent loopback.AgentOptions
	// Probation is how long a new build may take; 0 is the agent's own.
	Probation time.Duration
	// Restart, Watchdog and Starting replace RestartSec, WatchdogSec and TimeoutStartSec of
	// the unit; 0 keeps them.
	Restart, Watchdog, Starting time.Duration
	// WrapFirst, for an agent in this folder, is put before the argv of the first start only,
	// such as [strace, …].
	WrapFirst func(dir string) []string
}

// Supervisor runs one agent until the test ends.
type Supervisor struct {
	*loopback.Agent
	// Binary is the agent's, in a directory of its own.
	Binary string

	t       testing.TB
	o       Options
	unit    unit
	socket  *net.UnixConn
	restart chan struct{}
	ended   chan struct{}
	stop    context.CancelFunc

	mu     sync.Mutex
	starts int
	pid    int
}

// Start starts an agent.
func Start(t testing.TB, o Options) *Supervisor {
	t.Helper()
	s := &Supervisor{Agent: loopback.NewAgent(t, o.Agent), t: t, o: o, restart: make(chan struct{}, 1), ended: make(chan struct{})}
	bin := filepath.Join(s.Dir, "bin")
	s.Binary = filepath.Join(bin, "nodehitch-agent")
	var err error
	if s.unit, err = read(bin); err != nil {
		t.Fatal(err)
	}
	for have, want := range map[*time.Duration]time.Duration{&s.unit.restart: o.Restart, &s.unit.watchdog: o.Watchdog, &s.unit.starting: o.Starting} {
		if want != 0 {
			*have = want
		}
	}
	content, err := os.ReadFile(s.Agent.Binary())
	if err == nil {
		err = errors.Join(os.Mkdir(bin, 0o755), os.WriteFile(s.Binary, content, 0o755), s.standIns())
	}
	if err == nil {
		s.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: s.file("notify")})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	t.Cleanup(s.Stop)
	return s
}

func (s *Supervisor) file(name string) string { return filepath.Join(s.Dir, name) }

// Starts is how often the agent was started.
func (s *Supervisor) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

// PID of the agent that runs, 0 between two.
func (s *Supervisor) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// SetProbation replaces the option of this name, from the next start on.
func (s *Supervisor) SetProbation(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Probation = d
}

// Stop stops the agent as `systemctl stop` does; it may be called twice.
func (s *Supervisor) Stop() {
	s.stop()
	<-s.ended
	_ = s.socket.Close() // no other process writes any more
}

// Restart restarts the agent as `systemctl restart --no-block` does.
func (s *Supervisor) Restart() {
	select {
	case s.restart <- struct{}{}:
	default:
	}
}

// run is the life of the unit.
func (s *Supervisor) run(ctx context.Context) {
	defer close(s.ended)
	var calls sync.WaitGroup
	calls.Go(func() { s.answer(ctx) })
	defer calls.Wait()
	for ctx.Err() == nil {
		s.check(ctx)
		if err := s.live(ctx); err != nil {
			s.log("the agent has ended: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.unit.restart):
		}
	}
}

func (s *Supervisor) log(format string, args ...any) {
	f, err := os.OpenFile(s.file("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "supervisor: "+format+"\n", args...)
}

// check is ExecStartPre: what it cannot run, it leaves out, and that it fails changes
// nothing.
func (s *Supervisor) check(ctx context.Context) {
	if _, err := os.Stat(s.unit.pre[0]); err != nil {
		return
	}
	p, err := s.begin(append(slices.Clone(s.unit.pre), "--config", s.file("agent.yaml")))
	if err != nil {
		s.log("%v", err)
		return
	}
	select {
	case <-p.Ended():
	case <-ctx.Done():
		_ = p.Process.Kill()
	case <-time.After(s.unit.starting):
		_ = p.Process.Kill()
	}
	if err := p.How(); err != nil {
		s.log("%s: %v", s.unit.pre[0], err)
	}
}

// begin starts a command of the unit.
func (s *Supervisor) begin(argv []string) (*process.Process, error) {
	log, err := os.OpenFile(s.file("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	argv = s.OnItsOwn(argv)
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = slices.Concat(os.Environ(), s.o.Agent.Env, s.unit.environment, []string{
		"PATH=" + s.file("standins") + ":" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + s.file("notify"),
		fmt.Sprintf("WATCHDOG_USEC=%d", s.unit.watchdog.Microseconds()),
	})
	cmd.Stdout, cmd.Stderr = log, log
	return process.Start(cmd)
}

// live is one life of the agent, from its start to its end.
func (s *Supervisor) live(ctx context.Context) error {
	argv := append(slices.Clone(s.unit.start), s.RunFlags()...)
	s.mu.Lock()
	if s.o.Probation != 0 {
		argv = append(argv, "--probation", s.o.Probation.String())
	}
	s.starts++
	if s.starts == 1 && s.o.WrapFirst != nil {
		argv = append(s.o.WrapFirst(s.Dir), argv...)
	}
	s.mu.Unlock()
	p, err := s.begin(argv)
	if err != nil {
		return err
	}
	s.running(p.Process.Pid)
	defer s.running(0)
	told := make(chan string)
	gone := make(chan struct{})
	defer close(gone)
	go s.listen(told, gone)
	limit := time.NewTimer(s.unit.starting)
	defer limit.Stop()
	for {
		select {
		case <-p.Ended():
			return p.How()
		case state := <-told:
			if state == "READY=1" || state == "WATCHDOG=1" {
				limit.Reset(s.unit.watchdog)
			}
		case <-limit.C:
			s.log("no READY or WATCHDOG in time")
			return s.kill(p, syscall.SIGABRT)
		case <-s.restart:
			return s.kill(p, syscall.SIGTERM)
		case <-ctx.Done():
			return s.kill(p, syscall.SIGTERM)
		}
	}
}

func (s *Supervisor) running(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// kill ends a process by a signal, or after TimeoutStopSec for good.
func (s *Supervisor) kill(p *process.Process, signal syscall.Signal) error {
	_ = p.Process.Signal(signal)
	select {
	case <-p.Ended():
	case <-time.After(s.unit.stopping):
		_ = p.Process.Kill()
	}
	return p.How()
}

// listen passes on what the agent tells the service manager, until gone.
func (s *Supervisor) listen(told chan<- string, gone <-chan struct{}) {
	b := make([]byte, 4096)
	for {
		_ = s.socket.SetReadDeadline(time.Now().Add(time.Second))
		n, err := s.socket.Read(b)
		select {
		case <-gone:
			return
		default:
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return
		}
		for state := range strings.Lines(string(b[:n])) {
			select {
			case told <- strings.TrimSpace(state):
			case <-gone:
				return
			}
		}
	}
}
