package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/qapi"
	"github.com/nodehitch/nodehitch/e2e/netns"
)

// vmRun is one run of QEMU, which may span several boots of the guest.
type vmRun struct {
	cmd            *exec.Cmd
	done           chan struct{} // closed when QEMU has ended
	monitor, agent *qapi.Client
}

// kernelArguments: what is left out or turned off costs an emulated machine
// time; net.ifnames=0 makes the only interface eth0.
const kernelArguments = "console=ttyS0 root=/dev/vda rw net.ifnames=0 mitigations=off nokaslr audit=0 " +
	"quiet loglevel=4 random.trust_cpu=on tsc=reliable no_timer_check systemd.log_level=warning"

func (r *vmRun) over() bool {
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

func (r *vmRun) waitOver(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *vmRun) close() {
	if r == nil {
		return
	}
	for _, c := range []*qapi.Client{r.monitor, r.agent} {
		if c != nil {
			c.Close()
		}
	}
}

func (m *vm) current() *vmRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

func (m *vm) Start(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	if !m.current().over() {
		return fmt.Errorf("node %s: is running", m.spec.Name)
	}
	return m.powerOn(ctx, nil)
}

// powerOn lets the machine run: from its kernel on, or from what load puts
// into its memory while it stands still.
func (m *vm) powerOn(ctx context.Context, load func(context.Context, *vmRun) error) error {
	var extra []string
	if load != nil {
		extra = []string{"-incoming", "defer"}
	}
	r, err := m.launch(ctx, extra...)
	if err == nil && load != nil {
		err = load(ctx, r)
	}
	if err == nil {
		err = m.plugAll(ctx, r)
	}
	if err == nil {
		err = r.monitor.Do(ctx, "cont", nil, nil)
	}
	if err == nil {
		err = m.waitReady(ctx, r)
	}
	if err != nil {
		return m.explain("starting", err)
	}
	return nil
}

// launch starts QEMU with what every machine has and the guest stopped before
// its first instruction, and connects to it.
func (m *vm) launch(ctx context.Context, extra ...string) (*vmRun, error) {
	argv, err := m.lab.inGroups(m.spec, cpuGroups(m.lab.machine(m.spec.Name)))
	if err != nil {
		return nil, err
	}
	argv = append(argv, "nsenter", "--net="+netns.Path(m.lab.netns()), "--", qemu)
	argv = append(argv, "-name", m.lab.machine(m.spec.Name), "-uuid", m.spec.ServerID)
	argv = append(append(argv, m.hardware()...), extra...)
	// Its end is not a context's matter: it outlives the call that starts it.
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Dir = m.dir // sockets by relative path: theirs may be 107 bytes long only
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	log, err := os.OpenFile(m.path("qemu.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := m.lab.ledger.start(cmd, m.spec.Name, syscall.SIGTERM); err != nil {
		return nil, err
	}
	r := &vmRun{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how QEMU ended is in its log
		m.lab.ledger.forgetProcesses(cmd.Process.Pid)
		close(r.done)
	}()
	m.mu.Lock()
	m.run.close()
	m.run = r
	m.mu.Unlock()
	return r, m.connect(ctx, r)
}

// hardware is what a snapshot only fits if it is the same: everything but the
// machine's identity.
func (m *vm) hardware() []string {
	kernel := kernelArguments
	if m.bare {
		kernel += " cloud-init=disabled" // it is for the copies to run
	}
	if m.spec.Cold {
		// The kernel measures the processor's counter while it boots. On a busy host that fails under
		// emulation: the clock is ten times too fast, unless the kernel may doubt the counter.
		kernel = strings.ReplaceAll(kernel, " tsc=reliable", "")
	}
	return append(slices.Clone(m.accel.args),
		"-machine", "pc", "-smp", "1", "-m", fmt.Sprint(m.spec.MemoryMiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-S",
		"-kernel", m.image.Kernel, "-initrd", m.image.Initrd, "-append", kernel,
		"-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console",
		"-qmp", "unix:monitor.sock,server=on,wait=off",
		"-blockdev", "driver=file,node-name=root-file,filename=root.qcow2,cache.no-flush=on",
		"-blockdev", "driver=qcow2,node-name=root,file=root-file,discard=unmap",
		"-device", "virtio-blk-pci,drive=root,addr=2",
		"-object", "rng-random,filename=/dev/urandom,id=random",
		"-device", "virtio-rng-pci,rng=random,addr=3",
		"-device", "virtio-serial-pci,addr=4",
		"-chardev", "socket,id=agent,path=agent.sock,server=on,wait=off",
		"-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
	)
}

// connect opens both channels. A socket file of an earlier run refuses until
// QEMU has replaced it.
func (m *vm) connect(ctx context.Context, r *vmRun) error {
	return until(ctx, 10*time.Millisecond, func() (bool, error) {
		if r.over() {
			return false, errors.New("QEMU ended")
		}
		var err error
		if r.monitor == nil {
			r.monitor, err = qapi.DialMonitor(ctx, m.path("monitor.sock"))
		}
		if err == nil {
			r.agent, err = qapi.DialAgent(ctx, m.path("agent.sock"))
		}
		return err == nil, nil
	})
}

// waitReady waits for the guest agent.
func (m *vm) waitReady(ctx context.Context, r *vmRun) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.done:
			cancel(errors.New("QEMU ended"))
		case <-ctx.Done():
		}
	}()
	if err := r.agent.Sync(ctx); err != nil {
		return fmt.Errorf("waiting for the guest agent: %w", err)
	}
	return nil
}

// explain adds what QEMU and the guest have said last to an error.
func (m *vm) explain(doing string, err error) error {
	console, _ := m.Console()
	log, _ := os.ReadFile(m.path("qemu.log"))
	return fmt.Errorf("node %s: %s: %w; QEMU says: %s; the console ends with:\n%s",
		m.spec.Name, doing, err, lastLines(log, 3), lastLines(console, 15))
}
