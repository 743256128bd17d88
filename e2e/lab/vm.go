package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

const (
	qemu = "qemu-system-x86_64"
	// vmBoot bounds a wait for a machine whose caller set no deadline. Several
	// emulated machines on two processors take their time.
	vmBoot = 5 * time.Minute
)

// vm is a node in a QEMU virtual machine.
type vm struct {
	lab   *Lab
	spec  Spec
	dir   string
	image image.VM
	accel accelerator
	bare  bool // the machine that is frozen: no interface, no seed, no disks

	mu    sync.Mutex
	run   *vmRun // the present or last run of QEMU
	disks []Disk
	// cutOff: the address belongs to another machine, or to none.
	cutOff bool
}

// VM starts a virtual machine and returns when it answers to Exec. It has an
// own kernel, udev, and nfs-kernel-server installed and started.
//
// With Spec.Cold it boots from its kernel on, through cloud-init.
//
// Without, it is a copy of a machine that was running when it was frozen. It
// is up in a second or two, with its own name, address, disks and machine-id,
// but cloud-init has not run: what an agent asks it for is there
// (/run/cloud-init/instance-data.json), while DMI's product_uuid, the kernel's
// command line and boot_id are those of the frozen machine. If there is
// UserData, cloud-init then starts and handles it. At the next boot such a
// machine is as any other.
func (l *Lab) VM(ctx context.Context, s Spec) (Node, error) {
	img, err := l.vmImage(ctx, &s)
	if err != nil {
		return nil, err
	}
	accel := accelerate(ctx, img, l.log)
	base, frozen := drive{img.Disk, "raw"}, ""
	if !s.Cold {
		if frozen, err = l.frozen(ctx, img, accel); err != nil {
			return nil, err
		}
		base = drive{filepath.Join(frozen, frozenDisk), "qcow2"}
	}
	began := time.Now()
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	withUserData := s.UserData != nil
	s, dir, err := l.admit(s)
	if err != nil {
		return nil, err
	}
	m := &vm{lab: l, spec: s, dir: dir, image: img, accel: accel, disks: s.Disks}
	if err = m.prepare(base); err == nil {
		if s.Cold {
			err = m.coldBoot(ctx)
		} else {
			err = m.thaw(ctx, frozen, withUserData)
		}
	}
	if err != nil {
		return nil, errors.Join(err, m.Destroy())
	}
	l.log("lab: virtual machine %s at %s is up, %.1f s", s.Name, s.Address, time.Since(began).Seconds())
	return m, nil
}

// vmImage is the image for a machine, whose spec gets its system.
func (l *Lab) vmImage(ctx context.Context, s *Spec) (image.VM, error) {
	var err error
	if s.System, err = s.System.OrDefault(); err != nil {
		return image.VM{}, err
	}
	switch {
	case s.NFSServerOff && s.Cold:
		return image.VM{}, fmt.Errorf("node %s: NFSServerOff is for a copy of the snapshot: a VM that boots starts what its image has", s.Name)
	case s.Kubelet != nil && !s.Cold:
		return image.VM{}, fmt.Errorf("node %s: a VM with a kubelet has to be Cold: a copy of the snapshot has too little memory, and the UUID of another server", s.Name)
	case s.Kubelet != nil:
		return l.cache.VMWithKubelet(ctx, s.System, s.Kubelet.Programs, s.Kubelet.Containerd)
	case s.Engine == EngineOffered:
		return image.VM{}, fmt.Errorf("node %s: no VM has a container engine on offer: use an nspawn node, or EngineInstalled", s.Name)
	case s.Engine == EngineInstalled:
		return l.cache.VMWithEngine(ctx, s.System)
	}
	return l.cache.VM(ctx, s.System)
}

// coldBoot also writes what kubelet and kubeadm look for before cloud-init has done its work.
func (m *vm) coldBoot(ctx context.Context) error {
	err := m.powerOn(ctx, nil)
	if err == nil && m.spec.Kubelet != nil {
		err = m.Push(ctx, "/etc/hosts", 0o644, m.spec.hosts())
	}
	return err
}

// drive is a disk image and its format in QEMU's words.
type drive struct{ path, format string }

// prepare makes the root disk over a base, the seed and the tap device.
func (m *vm) prepare(base drive) error {
	if err := m.makeRoot(base); err != nil {
		return err
	}
	if err := m.writeSeed(); err != nil {
		return fmt.Errorf("node %s: making the seed: %w", m.spec.Name, err)
	}
	ns := m.lab.netns()
	if err := run("ip", "-n", ns, "tuntap", "add", m.tap(), "mode", "tap"); err != nil {
		return err
	}
	return run("ip", "-n", ns, "link", "set", m.tap(), "master", bridge, "up")
}

const (
	rootDisk   = "root.qcow2"
	consoleLog = "console.log"
)

func (m *vm) makeRoot(base drive) error {
	return run("qemu-img", "create", "-q", "-f", "qcow2", "-b", base.path, "-F", base.format, m.path(rootDisk))
}

// writeSeed makes the ISO image from which cloud-init's NoCloud reads.
func (m *vm) writeSeed() error {
	dir := m.path("seed")
	for name, data := range map[string][]byte{
		"meta-data":      m.spec.metaData(),
		"user-data":      m.spec.UserData,
		"network-config": m.spec.networkConfig("eth0"),
	} {
		if err := writeFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return run("genisoimage", "-quiet", "-output", m.path("seed.iso"), "-volid", "cidata", "-joliet", "-rock", dir)
}

func (m *vm) path(name string) string { return filepath.Join(m.dir, name) }
func (m *vm) Name() string            { return m.spec.Name }
func (m *vm) ServerID() string        { return m.spec.ServerID }
func (m *vm) System() System          { return m.spec.System }
func (m *vm) Address() netip.Addr     { return m.spec.Address }

// tap and mac are unique in the lab as the address is.
func (m *vm) tap() string { return fmt.Sprintf("tap%d", m.spec.Address.As4()[3]) }
func (m *vm) mac() string {
	a := m.spec.Address.As4()
	return fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

func (m *vm) Console() ([]byte, error) { return os.ReadFile(m.path(consoleLog)) }

func (m *vm) WaitCloudInit(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	return waitCloudInit(ctx, m, time.Second) // each poll starts a program in the guest
}

func (m *vm) Destroy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.lab.ledger.dropNode(m.spec.Name); err != nil {
		return fmt.Errorf("node %s: %w", m.spec.Name, err)
	}
	m.run.close()
	if m.cutOff {
		return os.RemoveAll(m.dir)
	}
	// The tap device may not exist yet, and goes with the namespace in the end.
	_ = run("ip", "-n", m.lab.netns(), "link", "delete", m.tap())
	return m.lab.release(m.spec, m.dir)
}
