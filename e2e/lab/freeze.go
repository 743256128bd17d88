package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

const (
	frozenState = "memory.state"
	frozenDisk  = rootDisk
)

// frozenRecipe is bumped when what freeze does changes: it is part of the
// snapshot's version, together with what the snapshot was made from and by.
const frozenRecipe = "1"

// frozen returns the folder of the snapshot: the disk and the memory of a
// machine that has booted, without interface, seed and disks, and with
// nfs-kernel-server started. It only fits the very same machine.
func (l *Lab) frozen(ctx context.Context, img image.VM, accel accelerator) (string, error) {
	version, err := exec.CommandContext(ctx, qemu, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", qemu, err)
	}
	m := &vm{lab: l, image: img, accel: accel, bare: true}
	m.spec, err = Spec{Name: "frozen", ServerID: "00000000-0000-4000-8000-000000000000"}.complete(map[netip.Addr]string{})
	if err != nil {
		return "", err
	}
	key := image.Key(frozenRecipe, img.Disk, string(version), strings.Join(m.hardware(), " "))
	return l.cache.Get(ctx, img.Snapshot, key, func(ctx context.Context, dir string) error {
		ctx, cancel := within(ctx, 2*vmBoot)
		defer cancel()
		m.dir = dir
		return errors.Join(m.freeze(ctx), m.discard())
	})
}

// freeze boots the machine, brings it into the state that copies are to wake
// up in, and writes that down.
func (m *vm) freeze(ctx context.Context) error {
	if err := m.makeRoot(drive{m.image.Disk, "raw"}); err != nil {
		return err
	}
	if err := m.powerOn(ctx, nil); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"systemctl", "is-system-running", "--wait"},
		{"modprobe", "--all", "virtio_net", "virtio_blk", "isofs", "nfs", "nfsv4", "nfsd"},
		// Copies find in memory what cloud-init is made of.
		{"python3", "-c", "import cloudinit.cmd.main"},
		{"systemctl", "is-active", "nfs-server"},
		{"sync"},
	} {
		if _, err := m.Exec(ctx, argv...); err != nil {
			return fmt.Errorf("preparing the snapshot: %w", err)
		}
	}
	return m.save(ctx)
}

// save stops the machine between two instructions, writes its memory, and ends it.
func (m *vm) save(ctx context.Context) error {
	r := m.current()
	for _, command := range []struct {
		name      string
		arguments any
	}{
		{"stop", nil},
		{"migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40}},
		{"migrate", map[string]string{"uri": "exec:cat >" + frozenState}}, // in the folder that QEMU runs in
	} {
		if err := r.monitor.Do(ctx, command.name, command.arguments, nil); err != nil {
			return err
		}
	}
	if err := r.waitMigrated(ctx); err != nil {
		return fmt.Errorf("saving the machine: %w", err)
	}
	return m.PowerCut(ctx)
}

// waitMigrated waits for the end of a migration, which is what QEMU calls a
// memory image on its way in or out.
func (r *vmRun) waitMigrated(ctx context.Context) error {
	return until(ctx, 20*time.Millisecond, func() (bool, error) {
		var migration struct {
			Status string
			Error  string `json:"error-desc"`
		}
		if err := r.monitor.Do(ctx, "query-migrate", nil, &migration); err != nil {
			return false, err
		}
		if migration.Status == "failed" {
			return false, errors.New(migration.Error)
		}
		return migration.Status == "completed", nil
	})
}

// discard leaves the snapshot's folder with nothing but the snapshot.
func (m *vm) discard() error {
	errs := []error{m.lab.ledger.dropNode(m.spec.Name)}
	m.current().close()
	for _, name := range []string{"monitor.sock", "agent.sock", consoleLog, "qemu.log"} {
		if err := os.Remove(m.path(name)); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// thaw starts the machine as a copy of the frozen one.
func (m *vm) thaw(ctx context.Context, frozen string, withUserData bool) error {
	if m.spec.MemoryMiB != defaultMemoryMiB {
		return fmt.Errorf("node %s: a copy of the snapshot has %d MiB of memory: for %d it has to boot, with Cold",
			m.spec.Name, defaultMemoryMiB, m.spec.MemoryMiB)
	}
	if err := os.Symlink(filepath.Join(frozen, frozenState), m.path(frozenState)); err != nil {
		return err
	}
	err := m.powerOn(ctx, func(ctx context.Context, r *vmRun) error {
		if err := r.monitor.Do(ctx, "migrate-incoming", map[string]string{"uri": "exec:cat <" + frozenState}, nil); err != nil {
			return err
		}
		return r.waitMigrated(ctx)
	})
	if err != nil {
		return err
	}
	if m.spec.NFSServerOff {
		if _, err := m.Exec(ctx, "systemctl", "disable", "--now", "nfs-server"); err != nil {
			return err
		}
	}
	_, err = m.Exec(ctx, "busybox", "sh", "/usr/local/lib/lab/become.sh", m.spec.Name,
		netip.PrefixFrom(m.spec.Address, Subnet.Bits()).String(), m.spec.ServerID, fmt.Sprint(time.Now().Unix()))
	if err != nil {
		return err
	}
	for _, d := range m.disks {
		if err := m.waitLinked(ctx, d, m.twins(d)); err != nil {
			return fmt.Errorf("node %s: waiting for %s: %w", m.spec.Name, d.Link(), err)
		}
	}
	if !withUserData {
		return nil
	}
	_, err = m.Exec(ctx, "sh", "-euc", `rm "$1"; systemctl start --no-block cloud-init.target`, "sh", cloudInitResult)
	return err
}
