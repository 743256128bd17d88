package cases

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// What happens to the disks of a running machine, and to a format.
var _ = add(map[string]stepFunc{
	"faults":        (*run).setFaults,
	"remember":      func(r *run, _ context.Context, s Step) error { return r.keepCopy(s.Disk) },
	"keep":          (*run).keep,
	"restore":       (*run).restore,
	"half-a-format": (*run).halfAFormat,
	"fails":         (*run).fails,
})

// setFaults gives the disk other faults than it has, or none.
func (r *run) setFaults(ctx context.Context, s Step) error {
	disk := r.disks[s.Disk]
	disk.Faults = faultsOf(s.Faults)
	r.disks[s.Disk] = disk
	return r.node.SetFaults(ctx, disk.VolumeID, disk.Faults...)
}

func faultsOf(faults []Fault) []lab.Fault {
	list := make([]lab.Fault, len(faults))
	for i, f := range faults {
		list[i] = lab.Fault(f)
	}
	return list
}

// keep copies what the disk holds, for restore.
func (r *run) keep(ctx context.Context, s Step) error {
	return r.disks[s.Disk].Snapshot(ctx, r.disks[s.Disk].Path+".kept")
}

// restore writes the copy of keep to the disk; neither agent nor controller is told.
func (r *run) restore(ctx context.Context, s Step) error {
	kept := lab.Disk{VolumeID: r.disks[s.Disk].VolumeID, Path: r.disks[s.Disk].Path + ".kept"}
	return kept.Snapshot(ctx, r.disks[s.Disk].Path)
}

// halfAFormat makes mkfs fail on the machine after it has written everything but the
// first superblock, as if the machine had been lost during the format.
func (r *run) halfAFormat(ctx context.Context, _ Step) error {
	return r.node.Push(ctx, "/usr/local/sbin/mkfs.ext4", 0o755, []byte(`#!/bin/sh
/usr/sbin/mkfs.ext4 "$@" && dd if=/dev/zero of=/proc/self/fd/3 bs=4096 count=1 conv=notrunc,fsync
exit 1
`))
}

// fails expects a program on the machine to fail, although it runs as root.
func (r *run) fails(ctx context.Context, s Step) error {
	err := r.exec(ctx, s)
	var failure *lab.ExecError
	switch {
	case err == nil:
		return fmt.Errorf("%v succeeded, expected that it fails", s.Run)
	case errors.As(err, &failure) && failure.ExitCode != 127:
		r.t.Logf("as expected: %v", err)
		return nil
	}
	return err
}
