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
// v1 the named hierarchy "systemd" and, where it is mounted, v2 beside it; and the
// controllers', where the machine is to run containers of its own.
func (n *nspawn) cgroups() []string {
	name := n.lab.machine(n.spec.Name)
	if isCgroup2(cgroupRoot) {
		return []string{filepath.Join(cgroupRoot, name)}
	}
	groups := []string{filepath.Join(cgroupRoot, "systemd", name)}
	if unified := filepath.Join(cgroupRoot, "unified"); isCgroup2(unified) {
		groups = append(groups, filepath.Join(unified, name))
	}
	if n.spec.Engine != NoEngine {
		for _, controller := range controllers() {
			groups = append(groups, filepath.Join(cgroupRoot, controller, name))
		}
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

// makeCgroup makes a control group that takes processes: with v1 a new group of
// the cpuset controller has neither processors nor memory.
func makeCgroup(group string) error {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	for _, resource := range []string{"cpuset.cpus", "cpuset.mems"} {
		all, err := os.ReadFile(filepath.Join(filepath.Dir(group), resource))
		if err != nil {
			continue // another controller, or v2
		}
		if err := os.WriteFile(filepath.Join(group, resource), all, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// controllers names the folders of cgroup v1's controllers that are mounted.
func controllers() []string {
	var found []string
	mounted, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "tasks"))
	for _, tasks := range mounted {
		folder := filepath.Dir(tasks)
		if info, err := os.Lstat(folder); err == nil && info.IsDir() && filepath.Base(folder) != "systemd" {
			found = append(found, filepath.Base(folder))
		}
	}
	return found
}
