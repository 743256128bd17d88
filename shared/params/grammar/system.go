package grammar

import (
	"slices"
	"strings"
)

// Directories that a volume must not hide. The tables are a protection against
// slips, not a sandbox: anyone who may write the parameters may run the VM.
var (
	// wholeTrees are refused with everything below them: the operating system, its
	// pseudo file systems, and the state of the services that the node runs on.
	wholeTrees = []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/lost+found",
		"/proc", "/root", "/run", "/sbin", "/snap", "/sys", "/tmp", "/usr",
		"/var/cache", "/var/lock", "/var/log", "/var/run", "/var/spool", "/var/tmp",
		"/var/lib/apt", "/var/lib/cloud", "/var/lib/containerd", "/var/lib/docker",
		"/var/lib/dpkg", "/var/lib/kubelet", "/var/lib/nfs", "/var/lib/nodehitch",
		"/var/lib/polkit-1", "/var/lib/rpm", "/var/lib/sudo", "/var/lib/systemd",
	}
	// shared directories are refused themselves, because they contain what others need;
	// a directory of one's own below them is fine.
	shared = []string{"/home", "/media", "/opt", "/var", "/var/lib"}
)

// SystemDirectory says why the clean absolute path s must not be mounted on, or given to a
// container, "" if it may.
func SystemDirectory(s string) string {
	if s == "/" {
		return "is the root directory"
	}
	if slices.Contains(strings.Split(s, "/"), ".ssh") {
		return "lies in .ssh, which decides who may log in"
	}
	for _, tree := range wholeTrees {
		if s == tree {
			return "is a directory of the system"
		}
		if Under(s, tree) {
			return "lies in " + tree + ", a directory of the system"
		}
	}
	for _, dir := range shared {
		if s == dir {
			return "holds files of the system or of users, which would be hidden or given away"
		}
	}
	return ""
}
