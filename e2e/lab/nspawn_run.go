package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/netns"
)

// nspawnRun is one boot of a container, from systemd-nspawn's start to its end.
type nspawnRun struct {
	cmd    *exec.Cmd
	leader process // the container's process 1
	// done is closed when systemd-nspawn has ended; reboot says whether it asked
	// for another boot, and next is closed when that has begun or failed.
	done, next chan struct{}
	reboot     bool
	nextErr    error
}

// exitReboot is how systemd-nspawn --keep-unit says that the container wants
// to be started again (systemd-nspawn(1), "Exit status").
const exitReboot = 133

func (r *nspawnRun) over() bool {
	if r == nil {
		return true
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *nspawnRun) waitOver(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitNext waits for the boot that follows a reboot.
func (r *nspawnRun) waitNext(ctx context.Context) error {
	if err := r.waitOver(ctx); err != nil {
		return err
	}
	if !r.reboot {
		return errors.New("the container ended instead")
	}
	select {
	case <-r.next:
		return r.nextErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *nspawn) Start(ctx context.Context) error {
	ctx, cancel := within(ctx, nspawnBoot)
	defer cancel()
	if !n.current().over() {
		return fmt.Errorf("node %s: is running", n.spec.Name)
	}
	if err := n.boot(ctx); err != nil {
		return err
	}
	return n.waitReady(ctx)
}

// boot starts systemd-nspawn and waits for the container's process 1.
func (n *nspawn) boot(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.destroyed {
		return fmt.Errorf("node %s: is destroyed", n.spec.Name)
	}
	cmd, err := n.command()
	if err != nil {
		return err
	}
	console, err := os.OpenFile(n.consolePath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	if err := n.lab.ledger.start(cmd, n.spec.Name, syscall.SIGTERM); err != nil {
		return fmt.Errorf("node %s: starting systemd-nspawn: %w", n.spec.Name, err)
	}
	n.run = &nspawnRun{cmd: cmd, done: make(chan struct{}), next: make(chan struct{})}
	go n.supervise(n.run)
	if err := n.findLeader(ctx, n.run); err != nil {
		return errors.Join(n.explain("starting systemd in the container", err), kill(cmd.Process))
	}
	return nil
}

// findLeader writes process 1 down too. At Close it is ended first: then
// systemd-nspawn sees its container gone and tidies up after itself.
func (n *nspawn) findLeader(ctx context.Context, run *nspawnRun) error {
	err := until(ctx, 10*time.Millisecond, func() (bool, error) {
		if run.over() {
			return false, errors.New("systemd-nspawn ended")
		}
		var ok bool
		run.leader, ok = containerInit(run.cmd.Process.Pid)
		return ok, nil
	})
	if err != nil {
		return err
	}
	_, err = n.lab.ledger.found(func() (entry, error) {
		return processEntry(run.leader.PID, n.spec.Name, syscall.SIGKILL)
	})
	return err
}

// supervise waits for the end of a boot and, when the container asked for a
// reboot, starts the next one.
func (n *nspawn) supervise(run *nspawnRun) {
	err := run.cmd.Wait()
	exit := (*exec.ExitError)(nil)
	run.reboot = errors.As(err, &exit) && exit.ExitCode() == exitReboot
	close(run.done)

	n.mu.Lock() // boot may still be looking for the leader
	leader := run.leader.PID
	n.mu.Unlock()
	n.lab.ledger.forgetProcesses(run.cmd.Process.Pid, leader)
	if run.reboot {
		ctx, cancel := within(context.Background(), nspawnBoot)
		defer cancel()
		run.nextErr = n.boot(ctx)
		close(run.next)
	}
}

func (n *nspawn) command() (*exec.Cmd, error) {
	argv, err := n.lab.inGroups(n.spec, n.cgroups())
	if err != nil {
		return nil, err
	}
	machine := n.lab.machine(n.spec.Name)
	traces := filepath.Join("/run/systemd/nspawn/propagate", machine)
	// systemd-nspawn makes that itself, and forgets it when it is killed.
	err = n.lab.ledger.make(entry{Kind: kindFile, Name: traces, Owner: n.spec.Name}, func() error { return nil })
	if err != nil {
		return nil, err
	}
	argv = append(argv, "nsenter", "--net="+netns.Path(n.lab.netns()), "--",
		"systemd-nspawn", "--quiet", "--boot", "--directory="+n.root(), "--machine="+machine, "--hostname="+n.spec.Name,
		"--register=no", "--keep-unit", "--network-bridge="+bridge, "--console=read-only",
		"--link-journal=no", "--resolv-conf=off", "--timezone=off")
	argv = append(argv, n.engineArguments()...)
	// Its end is not a context's matter: it outlives the call that boots it.
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// waitReady waits until systemd inside takes calls.
func (n *nspawn) waitReady(ctx context.Context) error {
	err := until(ctx, 10*time.Millisecond, func() (bool, error) {
		run := n.current()
		if run.over() {
			return false, errors.New("the container ended")
		}
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/private", run.leader.PID))
		return err == nil, nil
	})
	if err != nil {
		return n.explain("waiting for systemd in the container", err)
	}
	return nil
}

// explain adds the end of the console to an error.
func (n *nspawn) explain(doing string, err error) error {
	console, _ := n.Console()
	return fmt.Errorf("node %s: %s: %w; the console ends with:\n%s", n.spec.Name, doing, err, lastLines(console, 15))
}

// containerInit finds process 1 of the container that a systemd-nspawn
// supervises, once it has become systemd: its child that is first in a
// process namespace of its own.
func containerInit(supervisor int) (process, bool) {
	for _, pid := range children(supervisor) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !bytes.HasPrefix(status, []byte("Name:\tsystemd\n")) {
			continue
		}
		for line := range strings.Lines(string(status)) {
			ids := strings.Fields(line)
			if ids[0] == "NSpid:" && len(ids) == 3 && ids[1] == strconv.Itoa(pid) && ids[2] == "1" {
				p, err := identify(pid)
				return p, err == nil
			}
		}
	}
	return process{}, false
}

func lastLines(text []byte, count int) []byte {
	text = bytes.TrimRight(text, "\r\n")
	lines := bytes.Split(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-count):], []byte("\n"))
}
