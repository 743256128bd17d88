package host

import (
	"io"
	"slices"
	"strings"
	"time"
)

// These are all paths that the agent uses on a machine apart from its own state, and all
// commands that it runs. Commands are argv, never shell strings, and are found only in
// searchPath.

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Paths of the machine. Tests point them elsewhere.
type Paths struct {
	// ByID is where udev makes links with serial numbers.
	ByID string
	// Dev, Sys and Proc are the kernel's.
	Dev, Sys, Proc string
	// UdevControl exists while udev runs.
	UdevControl string
	// DpkgStatus and RPMDatabases change when any package does.
	DpkgStatus   string
	RPMDatabases []string
	// DpkgLock is the file that apt and dpkg lock while they run.
	DpkgLock string
	// EngineSocket is where the container engine listens.
	EngineSocket string
	// Kubeadm is the directory of kubeadm's configuration while kubeadm runs. It is in memory,
	// because the configuration contains secrets.
	Kubeadm string
	// EtcdCopies is a pattern for the copies of etcd's data that kubeadm makes before it upgrades a
	// master. Their names end in the time.
	EtcdCopies string
}

// MachinePaths are those of a real machine.
var MachinePaths = Paths{
	ByID: "/dev/disk/by-id", Dev: "/dev", Sys: "/sys", Proc: "/proc",
	UdevControl:  "/run/udev/control",
	DpkgStatus:   "/var/lib/dpkg/status",
	RPMDatabases: []string{"/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages"},
	DpkgLock:     "/var/lib/dpkg/lock-frontend",
	EngineSocket: "/run/docker.sock",
	Kubeadm:      "/run/nodehitch/kubeadm",
	EtcdCopies:   "/etc/kubernetes/tmp/kubeadm-backup-etcd-*",
}

// byIDNames are the names that the disk of a Cinder volume may have in ByID: virtio-blk
// keeps 20 characters of the serial, virtio-scsi all of it.
func byIDNames(volumeID string) []string {
	short := volumeID
	if len(short) > 20 {
		short = short[:20]
	}
	return []string{
		"virtio-" + short,
		"virtio-" + volumeID,
		"scsi-0QEMU_QEMU_HARDDISK_" + volumeID,
		"scsi-0QEMU_QEMU_HARDDISK_" + short,
	}
}

// The device of a command is its file descriptor 3: the kernel opens the device that the
// agent has open, even if a name in /dev now leads to another.
const openDevice = "/proc/self/fd/3"

func identifyCommand() Command {
	return Command{Argv: []string{"blkid", "-p", "-o", "export", openDevice}, Reads: true, Limit: time.Minute}
}

func signaturesCommand() Command {
	return Command{Argv: []string{"wipefs", "--no-act", "--parsable", openDevice}, Reads: true, Limit: time.Minute}
}

// eraseCommand erases a disk after an operator's permit. Without --force it refuses a
// disk that is in use.
func eraseCommand() Command {
	return Command{Argv: []string{"wipefs", "--all", "--quiet", openDevice}, Limit: time.Minute}
}

// mkfsCommand writes the same features on every distribution (-O none, then those of
// Linux 4.15 and e2fsprogs 1.44), so that a volume can move to an older VM. Without -F
// mkfs refuses a device that is in use, which is the last guard. It does not discard blocks:
// that can take long, and would make data unrecoverable that an operator gave up by mistake.
// It reserves no blocks for root, because root does not write here. Blocks and inodes have
// the same size on small disks too.
func mkfsCommand(uuid string) Command {
	return Command{
		Argv: []string{"mkfs.ext4", "-q", "-b", "4096", "-I", "256", "-m", "0", "-T", "default", "-U", uuid,
			"-O", "none,has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize," +
				"resize_inode,dir_index,sparse_super,large_file,filetype,ext_attr",
			"-E", "lazy_itable_init=1,lazy_journal_init=0,nodiscard", openDevice},
		Limit: time.Hour,
	}
}

// checkCommand checks the whole filesystem (-f), even if its superblock says that it is clean.
func checkCommand() Command {
	return Command{Argv: []string{"e2fsck", "-n", "-f", openDevice}, Reads: true, Limit: time.Hour}
}

// growCommand grows a filesystem to the size of its device. If it is mounted the kernel
// does that.
func growCommand() Command {
	return Command{Argv: []string{"resize2fs", openDevice}, Limit: time.Hour}
}

func announceCommand(node string) Command {
	return Command{Argv: []string{"udevadm", "trigger", "--action=change", "--settle", node}, Limit: 30 * time.Second}
}

func exportedCommand() Command {
	return Command{Argv: []string{"exportfs", "-s"}, Reads: true, Limit: time.Minute}
}

func reexportCommand() Command { return Command{Argv: []string{"exportfs", "-ra"}, Limit: time.Minute} }

func flushCommand() Command { return Command{Argv: []string{"exportfs", "-f"}, Limit: time.Minute} }

func unexportCommand(directory, client string) Command {
	return Command{Argv: []string{"exportfs", "-u", client + ":" + directory}, Limit: time.Minute}
}

func scopeHelpCommand() Command {
	return Command{Argv: []string{"rpc.nfsd", "--scope", "nodehitch", "--help"}, Reads: true, Limit: time.Minute}
}

func journalCommand(unit string) Command {
	return Command{Argv: []string{"journalctl", "--no-pager", "-q", "-o", "cat", "-b", "-n", "6", "-u", unit}, Reads: true, Limit: 5 * time.Second}
}

func containerdVersionCommand() Command {
	return Command{Argv: []string{"containerd", "--version"}, Reads: true, Limit: 30 * time.Second}
}

func containerdConfigCommand(path string) Command {
	return Command{Argv: []string{"containerd", "--config", path, "config", "dump"}, Reads: true, Limit: 30 * time.Second}
}

// validateDockerCommand does not know the flags of the running dockerd.
func validateDockerCommand(file string) Command {
	return Command{Argv: []string{"dockerd", "--validate", "--config-file", file}, Reads: true, Limit: 30 * time.Second}
}

func keepalivedCheckCommand(file string) Command {
	return Command{Argv: []string{"keepalived", "--config-test", "--use-file", file}, Reads: true, Limit: 30 * time.Second}
}

func modprobeCommand(modules ...string) Command {
	return Command{Argv: append([]string{"modprobe", "--all", "--"}, modules...), Limit: time.Minute}
}

func kubeadmVersionCommand() Command {
	return Command{Argv: []string{"kubeadm", "version", "--output", "short"}, Reads: true, Limit: 30 * time.Second}
}

func kubeletVersionCommand() Command {
	return Command{Argv: []string{"kubelet", "--version"}, Reads: true, Limit: 30 * time.Second}
}

// kubeadmLimit is longer than all waits of kubeadm's own together, so that kubeadm says what it
// has waited for, and allows for images from a slow registry.
const kubeadmLimit = 40 * time.Minute

func kubeadmValidateCommand(file string) Command {
	return Command{Argv: []string{"kubeadm", "config", "validate", "--config", file}, Reads: true, Limit: time.Minute}
}

// kubeadmPreflightCommand pulls only the images that are missing: kubeadm config images pull
// would need the registry for all.
func kubeadmPreflightCommand(file string) Command {
	return Command{Argv: []string{"kubeadm", "init", "phase", "preflight", "--config", file}, Limit: kubeadmLimit}
}

func kubeadmInitCommand(file string) Command {
	return Command{
		Argv:  []string{"kubeadm", "init", "--config", file, "--upload-certs", "--skip-token-print", "--skip-certificate-key-print"},
		Limit: kubeadmLimit,
	}
}

func kubeadmJoinCommand(file string) Command {
	return Command{Argv: []string{"kubeadm", "join", "--config", file}, Limit: kubeadmLimit}
}

// kubeadmEtcdCommand asks no API server. It names no other member: an etcd that has data knows them.
func kubeadmEtcdCommand(file string) Command {
	return Command{Argv: []string{"kubeadm", "init", "phase", "etcd", "local", "--config", file}, Limit: time.Minute}
}

func kubeadmUploadCommand(file string) Command {
	return Command{
		Argv:  []string{"kubeadm", "init", "phase", "upload-certs", "--config", file, "--upload-certs", "--skip-certificate-key-print"},
		Limit: 5 * time.Minute,
	}
}

// kubeadmApplyCommand and kubeadmNodeCommand read their configuration from the cluster.
func kubeadmApplyCommand(version string, ignored []string) Command {
	return Command{Argv: ignoring([]string{"kubeadm", "upgrade", "apply", "v" + version, "--yes"}, ignored), Limit: kubeadmLimit}
}

func kubeadmNodeCommand(ignored []string) Command {
	return Command{Argv: ignoring([]string{"kubeadm", "upgrade", "node"}, ignored), Limit: kubeadmLimit}
}

func ignoring(argv, checks []string) []string {
	if len(checks) == 0 {
		return argv
	}
	return append(argv, "--ignore-preflight-errors="+strings.Join(checks, ","))
}

func kubeadmRenewCommand() Command {
	return Command{Argv: []string{"kubeadm", "certs", "renew", "all"}, Limit: 10 * time.Minute}
}

// kubeletImages is containerd's namespace for kubelet.
const kubeletImages = "--namespace=k8s.io"

func imageNamesCommand() Command {
	return Command{Argv: []string{"ctr", kubeletImages, "images", "list", "--quiet"}, Reads: true, Limit: time.Minute}
}

func imageImportCommand(archive io.Reader) Command {
	return Command{Argv: []string{"ctr", kubeletImages, "images", "import", "-"}, Input: archive, Limit: engineImage}
}

// imageRemoveCommand returns when containerd has removed what no image uses any more.
func imageRemoveCommand(names ...string) Command {
	return Command{Argv: append([]string{"ctr", kubeletImages, "images", "remove", "--sync", "--"}, names...), Limit: 5 * time.Minute}
}

// aptEnvironment keeps apt, dpkg and needrestart from asking anything.
var aptEnvironment = []string{
	"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "APT_LISTCHANGES_FRONTEND=none",
	"NEEDRESTART_MODE=l", "NEEDRESTART_SUSPEND=1", "UCF_FORCE_CONFFOLD=1",
}

// packageLimit allows for a slow mirror.
const packageLimit = 20 * time.Minute

func dpkgQueryCommand(packages ...string) Command {
	return Command{Argv: append([]string{"dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\\n", "--"}, packages...), Reads: true, Limit: time.Minute}
}

func aptInstallCommand(packages ...string) Command {
	return Command{
		Argv: append([]string{"apt-get", "install", "-q", "-y", "--no-install-recommends", "--no-remove",
			"-o", "DPkg::Lock::Timeout=30", "-o", "DPkg::Options::=--force-confdef", "-o", "DPkg::Options::=--force-confold",
			"-o", "Acquire::Retries=2", "--"}, packages...),
		Env: aptEnvironment, Limit: packageLimit,
	}
}

// aptRepairCommand installs what packages on the machine lack, and again what is half installed.
// It removes none.
func aptRepairCommand() Command {
	c := aptInstallCommand()
	c.Argv = slices.Insert(c.Argv, 2, "--fix-broken")
	return c
}

func aptRelatedCommand(name string) Command {
	return Command{Argv: []string{"apt-cache", "depends", "--no-suggests", "--", name}, Reads: true, Limit: time.Minute}
}

// aptUpdateCommand fails if any source does: of one that does not answer, apt-get would only warn.
func aptUpdateCommand() Command {
	return Command{
		Argv: []string{"apt-get", "update", "-q", "-o", "DPkg::Lock::Timeout=30", "-o", "Acquire::Retries=2", "-o", "APT::Update::Error-Mode=any"},
		Env:  aptEnvironment, Limit: packageLimit,
	}
}

// dpkgRepairCommand finishes what a killed dpkg has left unfinished.
func dpkgRepairCommand() Command {
	return Command{
		Argv: []string{"dpkg", "--force-confdef", "--force-confold", "--configure", "-a"},
		Env:  aptEnvironment, Limit: packageLimit,
	}
}

func rpmQueryCommand(packages ...string) Command {
	return Command{Argv: append([]string{"rpm", "-q", "--qf", "%{NAME}\\n", "--"}, packages...), Reads: true, Limit: time.Minute}
}

func dnfInstallCommand(packages ...string) Command {
	return Command{
		Argv:  append([]string{"dnf", "install", "-q", "-y", "--setopt=exit_on_lock=True", "--setopt=install_weak_deps=False", "--"}, packages...),
		Limit: packageLimit,
	}
}

// refreshing is a command of dnf that first fetches the metadata of the repositories.
func refreshing(c Command) Command {
	c.Argv = slices.Insert(slices.Clone(c.Argv), 1, "--refresh")
	return c
}
