package lab

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups names the control groups that a container of the lab gets, one per
// hierarchy that systemd manages inside it: a single one with cgroup v2; with
// v1 the named hierarchy "systemd" and, where it is mounted, v2 beside it.
func (n *nspawn) cgroups() []string {
	name := n.lab.machine(n.spec.Name)
	if isCgroup2(cgroupRoot) {
		return []string{filepath.Join(cgroupRoot, name)}
	}
	groups := []string{filepath.Join(cgroupRoot, "systemd", name)}
	if unified := filepath.Join(cgroupRoot, "unified"); isCgroup2(unified) {
		groups = append(groups, filepath.Join(unified, name))
	}
	return groups
}

func isCgroup2(path string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(path, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// hasCgroups says whether the host has the hierarchy that nspawn needs.
func hasCgroups() bool {
	if isCgroup2(cgroupRoot) {
		return true
	}
	_, err := os.Stat(filepath.Join(cgroupRoot, "systemd", "cgroup.procs"))
	return err == nil
}
