package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups names the control groups that a container of the lab gets, one per
// hierarchy that systemd manages inside it: a single one with cgroup v2; with
// v1 the named hierarchy "systemd" and, if it is mounted, v2 beside it; those of
// cpuGroups; and all controllers', if the machine is to run containers of its own.
func (n *nspawn) cgroups() []string {
	name := n.lab.machine(n.spec.Name)
	if isCgroup2(cgroupRoot) {
		return cpuGroups(name)
	}
	groups := []string{filepath.Join(cgroupRoot, "systemd", name)}
	if unified := filepath.Join(cgroupRoot, "unified"); isCgroup2(unified) {
		groups = append(groups, filepath.Join(unified, name))
	}
	groups = append(groups, cpuGroups(name)...)
	if n.spec.Engine != NoEngine {
		for _, controller := range controllers() {
			groups = append(groups, filepath.Join(cgroupRoot, controller, name))
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// cpuGroups are the control groups by which a machine's CPU time is counted and bounded.
func cpuGroups(machine string) []string {
	if isCgroup2(cgroupRoot) {
		return []string{filepath.Join(cgroupRoot, machine)}
	}
	var groups []string
	for _, controller := range controllers() {
		for _, file := range []string{"cpuacct.usage", "cpu.cfs_period_us"} {
			if _, err := os.Stat(filepath.Join(cgroupRoot, controller, file)); err == nil {
				groups = append(groups, filepath.Join(cgroupRoot, controller, machine))
				break
			}
		}
	}
	return groups
}

// CPUTime is what a machine has used since its last start: all its processes, and for a
// virtual machine all of QEMU.
func (l *Lab) CPUTime(n Node) (time.Duration, error) {
	for _, group := range cpuGroups(l.machine(n.Name())) {
		if used, err := os.ReadFile(filepath.Join(group, "cpuacct.usage")); err == nil {
			ns, err := strconv.ParseInt(string(bytes.TrimSpace(used)), 10, 64)
			return time.Duration(ns), err
		}
		stat, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
		if used, found := bytes.CutPrefix(stat, []byte("usage_usec ")); err == nil && found {
			first, _, _ := strings.Cut(string(used), "\n")
			us, err := strconv.ParseInt(first, 10, 64)
			return time.Duration(us) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("node %s: no control group counts its CPU time", n.Name())
}

// CPUWait is how long a machine has waited for a processor of the host since its last start: the
// one of its threads that waited longest. It is 0 if the kernel does not count that.
func (l *Lab) CPUWait(n Node) (longest time.Duration) {
	groups := cpuGroups(l.machine(n.Name()))
	if len(groups) == 0 {
		return 0
	}
	pids, _ := os.ReadFile(filepath.Join(groups[0], "cgroup.procs"))
	for _, pid := range strings.Fields(string(pids)) {
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		for _, thread := range threads {
			content, _ := os.ReadFile(thread) // it may have ended
			var ran, waited time.Duration
			if _, err := fmt.Sscan(string(content), &ran, &waited); err == nil {
				longest = max(longest, waited)
			}
		}
	}
	return longest
}

// bound gives a group its share of the processors.
func bound(group string, cpus float64) error {
	const period = 100_000 // µs
	quota := strconv.Itoa(int(cpus * period))
	file, text := filepath.Join(group, "cpu.cfs_quota_us"), quota
	if isCgroup2(cgroupRoot) {
		if err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+cpu"), 0o644); err != nil {
			return err
		}
		file, text = filepath.Join(group, "cpu.max"), quota+" "+strconv.Itoa(period)
	} else if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil // a group of another controller
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// joinAndRun moves itself into the control groups before "--", then becomes
// the command after it. systemd-nspawn hands the group in which it finds
// itself on to the container, so it has to be there before it starts.
const joinAndRun = `while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"`

// inGroups makes control groups for a machine, and is the beginning of a command line
// that runs in them.
func (l *Lab) inGroups(s Spec, groups []string) ([]string, error) {
	argv := []string{"sh", "-c", joinAndRun, "sh"}
	for _, group := range groups {
		// A fresh group for each boot: one with children takes no processes.
		if err := removeCgroup(group); err != nil {
			return nil, err
		}
		err := l.ledger.make(entry{Kind: kindCgroup, Name: group, Owner: s.Name}, func() error {
			return makeCgroup(group)
		})
		if err == nil && s.CPUs > 0 {
			err = bound(group, s.CPUs)
		}
		if err != nil {
			return nil, fmt.Errorf("node %s: making a control group: %w", s.Name, err)
		}
		argv = append(argv, group)
	}
	return append(argv, "--"), nil
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
