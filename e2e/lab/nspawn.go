package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nspawnBoot bounds a wait for a container whose caller set no deadline.
const nspawnBoot = 2 * time.Minute

// nspawn is a node in a systemd-nspawn container: a real systemd and a real
// cloud-init on an overlay of the cached root, with the host's kernel.
type nspawn struct {
	lab  *Lab
	spec Spec
	dir  string

	mu        sync.Mutex
	run       *nspawnRun // the present or last boot
	disks     []loopDisk
	destroyed bool
}

// Nspawn starts a container and returns when it answers to Exec; cloud-init
// goes on from there (WaitCloudInit). It has the host's kernel, so no NFS server if that
// has none, and no udev: the links of its disks are made by a unit of the lab, before
// local-fs.target.
func (l *Lab) Nspawn(ctx context.Context, s Spec) (Node, error) {
	began := time.Now()
	var err error
	if s.System, err = s.System.OrDefault(); err != nil {
		return nil, err
	}
	if s.Kubelet != nil {
		s.Engine = EngineInstalled
	}
	layers, err := l.layers(ctx, s)
	if err != nil {
		return nil, err
	}
	s, dir, err := l.admit(s)
	if err != nil {
		return nil, err
	}
	n := &nspawn{lab: l, spec: s, dir: dir}
	if err = n.prepare(layers); err == nil {
		err = n.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, n.Destroy())
	}
	l.log("lab: container %s at %s is up, %.1f s", s.Name, s.Address, time.Since(began).Seconds())
	return n, nil
}

// prepare mounts the root and writes what makes this machine itself.
func (n *nspawn) prepare(lower string) error {
	upper, work := filepath.Join(n.dir, "upper"), filepath.Join(n.dir, "work")
	for _, d := range append(n.engineFolders(), upper, work, n.root()) {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)
	err := n.lab.ledger.make(entry{Kind: kindMount, Name: n.root(), Owner: n.spec.Name}, func() error {
		return unix.Mount("overlay", n.root(), "overlay", 0, layers)
	})
	if err != nil {
		return fmt.Errorf("node %s: mounting the overlay in %s (it must not lie on an overlay itself): %w", n.spec.Name, n.dir, err)
	}
	const seed = "var/lib/cloud/seed/nocloud/"
	for path, data := range map[string][]byte{
		seed + "meta-data":      n.spec.metaData(),
		seed + "user-data":      n.spec.UserData,
		seed + "network-config": n.spec.networkConfig("host0"),
	} {
		if err := writeFile(filepath.Join(n.root(), path), data, 0o600); err != nil {
			return err
		}
	}
	if n.spec.Kubelet != nil {
		if err := n.prepareKubelet(); err != nil {
			return err
		}
	}
	for _, d := range n.spec.Disks {
		if err := n.plug(d); err != nil {
			return err
		}
	}
	return n.writeDiskTable()
}

func (n *nspawn) root() string        { return filepath.Join(n.dir, "root") }
func (n *nspawn) consolePath() string { return filepath.Join(n.dir, "console.log") }
func (n *nspawn) Name() string        { return n.spec.Name }
func (n *nspawn) ServerID() string    { return n.spec.ServerID }
func (n *nspawn) System() System      { return n.spec.System }
func (n *nspawn) Address() netip.Addr { return n.spec.Address }

func (n *nspawn) Console() ([]byte, error) { return os.ReadFile(n.consolePath()) }

func (n *nspawn) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return n.exec(ctx, nil, argv)
}

// Push lets install(1) do it inside: a path is resolved by the machine that
// it belongs to, also where it crosses an absolute symlink.
func (n *nspawn) Push(ctx context.Context, path string, mode fs.FileMode, data []byte) error {
	_, err := n.exec(ctx, data, []string{"install", "-D", "-m", fmt.Sprintf("%#o", mode.Perm()), "/dev/stdin", path})
	return err
}

func (n *nspawn) Pull(ctx context.Context, path string) ([]byte, error) {
	return n.exec(ctx, nil, []string{"cat", "--", path})
}

// Stop asks systemd-nspawn for it, which powers the container off in order.
func (n *nspawn) Stop(ctx context.Context) error {
	ctx, cancel := within(ctx, nspawnBoot)
	defer cancel()
	run := n.current()
	if run.over() {
		return nil
	}
	if err := run.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return run.waitOver(ctx)
}

// PowerCut kills the container's first process, and with it the kernel kills
// all others; systemd-nspawn then ends and leaves nothing behind.
func (n *nspawn) PowerCut(ctx context.Context) error {
	ctx, cancel := within(ctx, nspawnBoot)
	defer cancel()
	run := n.current()
	if run.over() {
		return nil
	}
	if err := run.leader.end(syscall.SIGKILL); err != nil {
		return err
	}
	return run.waitOver(ctx)
}

func (n *nspawn) Reboot(ctx context.Context) error {
	ctx, cancel := within(ctx, nspawnBoot)
	defer cancel()
	before := n.current()
	if _, err := n.Exec(ctx, "systemctl", "reboot"); err != nil {
		// It may be taken down before it can report success.
		if exit := (*ExecError)(nil); !errors.As(err, &exit) || exit.ExitCode > 0 {
			return err
		}
	}
	if err := before.waitNext(ctx); err != nil {
		return n.explain("rebooting", err)
	}
	return n.waitReady(ctx)
}

func (n *nspawn) Destroy() error {
	n.mu.Lock()
	n.destroyed = true
	n.mu.Unlock()
	if err := n.lab.ledger.dropNode(n.spec.Name); err != nil {
		return fmt.Errorf("node %s: %w", n.spec.Name, err)
	}
	return n.lab.release(n.spec, n.dir)
}

func (n *nspawn) current() *nspawnRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.run
}

// exec enters all of the container's namespaces. The command stays in the
// lab's own control group, so that a stop of the container need not wait for it. It has the
// capabilities of the container's process 1: the lab's own would also set the host's clock.
func (n *nspawn) exec(ctx context.Context, stdin []byte, argv []string) ([]byte, error) {
	run := n.current()
	if run.over() {
		return nil, fmt.Errorf("%s: %s: the machine is off", n.spec.Name, argv[0])
	}
	bounds, err := run.leader.capabilities()
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", n.spec.Name, argv[0], err)
	}
	args := append([]string{"--target", fmt.Sprint(run.leader.PID),
		"--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--",
		"setpriv", "--bounding-set=" + bounds, "--"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = plainEnvironment
	return finish(cmd, n.spec.Name, argv, stdin)
}

func (n *nspawn) WaitCloudInit(ctx context.Context) error {
	ctx, cancel := within(ctx, nspawnBoot)
	defer cancel()
	return waitCloudInit(ctx, n, 25*time.Millisecond)
}

func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}
