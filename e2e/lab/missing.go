package lab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// Kind is a kind of machine.
type Kind string

const (
	// KindNspawn is a systemd-nspawn container, see Lab.Nspawn.
	KindNspawn Kind = "nspawn"
	// KindVM is a QEMU virtual machine, see Lab.VM.
	KindVM Kind = "vm"
)

// requirement is a program of the host and the Debian and Ubuntu package that has it.
type requirement struct {
	program, pkg string
	kinds        []Kind
}

var requirements = []requirement{
	{"ip", "iproute2", []Kind{KindNspawn, KindVM}},
	{"nsenter", "util-linux", []Kind{KindNspawn, KindVM}},
	{"mmdebstrap", "mmdebstrap", []Kind{KindNspawn, KindVM}},
	{"apt-ftparchive", "apt-utils", []Kind{KindNspawn, KindVM}},
	{"systemd-nspawn", "systemd-container", []Kind{KindNspawn}},
	{"losetup", "mount", []Kind{KindNspawn}},
	{"qemu-system-x86_64", "qemu-system-x86", []Kind{KindVM}},
	{"qemu-img", "qemu-utils", []Kind{KindVM}},
	{"mke2fs", "e2fsprogs", []Kind{KindVM}},
	{"genisoimage", "genisoimage", []Kind{KindVM}},
	{"lz4", "lz4", []Kind{KindVM}},
	{"xz", "xz-utils", []Kind{KindVM}},
	{"zstd", "zstd", []Kind{KindVM}},
	{"cpio", "cpio", []Kind{KindVM}},
}

// Missing says what this host lacks to run machines of these kinds (none
// named means all), each a sentence that ends in what to do. Empty means that
// they can run. It changes nothing on the host.
func Missing(kinds ...Kind) []string {
	if len(kinds) == 0 {
		kinds = []Kind{KindNspawn, KindVM}
	}
	if runtime.GOOS != "linux" {
		return []string{"the lab needs Linux: run it in a virtual machine with Debian or Ubuntu"}
	}
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "the lab makes namespaces and mounts: run as root")
	} else if err := hostCommand("unshare", "--net", "--mount", "true").Run(); err != nil {
		lacks = append(lacks, fmt.Sprintf("root may not make namespaces here (%v): in a container, run it privileged", err))
	}
	lacks = append(lacks, missingPrograms(kinds)...)
	if _, err := os.Stat(image.Keyring); err != nil {
		lacks = append(lacks, "no keys for Debian's packages ("+image.Keyring+"): apt-get install debian-archive-keyring")
	}
	if slices.Contains(kinds, KindNspawn) {
		lacks = append(lacks, missingForNspawn()...)
	}
	if slices.Contains(kinds, KindVM) {
		lacks = append(lacks, missingForVM()...)
	}
	return lacks
}

// missingPrograms names all packages in one sentence, to be installed at once.
func missingPrograms(kinds []Kind) []string {
	var programs, packages []string
	for _, r := range requirements {
		wanted := slices.ContainsFunc(r.kinds, func(k Kind) bool { return slices.Contains(kinds, k) })
		if _, err := exec.LookPath(r.program); wanted && err != nil {
			programs, packages = append(programs, r.program), append(packages, r.pkg)
		}
	}
	if programs == nil {
		return nil
	}
	return []string{fmt.Sprintf("no %s: apt-get install %s", strings.Join(programs, ", "), strings.Join(packages, " "))}
}

func missingForNspawn() []string {
	var lacks []string
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		lacks = append(lacks, "no loop devices (/dev/loop-control): modprobe loop")
	}
	if !hasCgroups() {
		lacks = append(lacks, "no control groups that systemd can use: mount cgroup2 on /sys/fs/cgroup, or cgroup v1's hierarchy name=systemd on /sys/fs/cgroup/systemd")
	}
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "\toverlay\n") &&
		hostCommand("modprobe", "--dry-run", "overlay").Run() != nil {
		lacks = append(lacks, "the kernel has no overlay file system: use a kernel with CONFIG_OVERLAY_FS")
	}
	return lacks
}

func missingForVM() []string {
	if runtime.GOARCH != "amd64" {
		return []string{"the lab's virtual machines are built for amd64: use an amd64 host"}
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return []string{"no tap devices (/dev/net/tun): modprobe tun, or in a container pass --device /dev/net/tun"}
	}
	tun.Close()
	return nil
}
