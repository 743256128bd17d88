package lab

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// System is the operating system of a machine.
type System = image.System

// The systems.
const (
	Debian12 = image.Debian12
	Debian13 = image.Debian13
)

// Spec describes a machine. Only Name is required.
type Spec struct {
	// System is the machine's operating system; empty means what NODEHITCH_SYSTEM names, and
	// without that Debian12.
	System System
	// Name is the host name: lower-case letters, digits and dashes, up to 32.
	Name string
	// ServerID is the identity of the server, in OpenStack Nova's id. The
	// machine sees it as cloud-init's instance-id, a VM also as its DMI
	// product_uuid. Empty means a new UUID.
	ServerID string
	// Address within Subnet; the zero value means the next free one.
	Address netip.Addr
	// Also are further addresses, each with the network that it is in, such as
	// 192.168.0.10/24. See Lab.AddAddress.
	Also []netip.Prefix
	// Metadata gives the machine a route through the lab to 169.254.169.254, if the lab has
	// a metadata service: see package openstack. A VM has it only after a Cold boot.
	Metadata bool
	// UserData is handed to cloud-init as it is; nil means an empty cloud-config.
	UserData []byte
	// Disks are there when the machine boots, in this order.
	Disks []Disk
	// MemoryMiB of a VM; 0 means 512, with a Kubelet 1536. An nspawn node has no limit.
	MemoryMiB int
	// Cold boots a VM from its kernel on and through all of cloud-init. Without
	// it a VM comes out of a snapshot in about a second, cloud-init having
	// never run: see Lab.VM.
	Cold bool
	// NFSServerOff ends the NFS server of a VM that comes out of the snapshot before the machine
	// has an address, and at its later boots nothing starts it: as in an image without it.
	NFSServerOff bool
	// CPUs is the machine's share of the host's processors, such as 0.25; 0 means as much
	// as there is. Lab.CPUTime says how much it has used.
	CPUs float64
	// NFSClient puts the package of the NFS client into an nspawn node's image; a VM has
	// it always.
	NFSClient bool
	// Engine says whether the machine can run containers of its own. No VM has EngineOffered.
	Engine Engine
	// Kubelet makes a machine one that kubeadm can make a member of a cluster, with an engine:
	// package kubetest has it. A VM has to be Cold.
	Kubelet *Kubelet
}

// Kubelet is what a machine with Debian's packages lacks, to be a member of a cluster. The
// machine also has a default route, which leads nowhere; a container has its server id as
// machine-id.
type Kubelet struct {
	// Programs is a folder that is laid over the root: usr/bin/kubelet, kubeadm, kubectl.
	Programs string
	// Containerd is a folder from which the machine gets the content of its
	// /var/lib/containerd, with the images of the cluster. See Lab.KeepContainerd.
	Containerd string
}

// Engine is a node's container engine: Debian's docker.io, with containerd.
type Engine int

const (
	// NoEngine is a node that could not run one.
	NoEngine Engine = iota
	// EngineOffered is a node on which apt installs the engine offline.
	EngineOffered
	// EngineInstalled is a node whose engine starts with it.
	EngineInstalled
)

// Disk is a volume of the machine, in Cinder's manner: the machine sees
// /dev/disk/by-id/virtio-<first 20 characters of VolumeID>.
type Disk struct {
	VolumeID string
	// Path is a raw file of whole sectors that outlives the machine. See Lab.NewDisk.
	Path string
	// Faults make reads and writes of sectors fail. VMs only.
	Faults []Fault
	// WriteLog is a file, empty when the machine starts, in which QEMU notes every
	// write and flush. See Disk.LoseCache. VMs only.
	WriteLog string
	// BytesPerSecond limits how fast the disk is written to; 0 means no limit. VMs only.
	BytesPerSecond int64
	// Shared lets several VMs have the disk at once, as servers have a volume that Cinder
	// attached to another one before the first was gone.
	Shared bool
}

// Serial is the disk's serial number as Nova passes it to QEMU: virtio-blk
// has room for 20 characters.
func (d Disk) Serial() string { return d.VolumeID[:min(20, len(d.VolumeID))] }

// Link is the path under which the machine finds the disk.
func (d Disk) Link() string { return "/dev/disk/by-id/virtio-" + d.Serial() }

// Node is a machine of the lab. Waiting ends with the context, or after a few
// minutes if it has no deadline; Exec lasts as long as its program. The methods that change the machine must
// not be called side by side for one node; Exec, Push and Pull may.
type Node interface {
	Name() string
	ServerID() string
	System() System
	Address() netip.Addr

	// Exec runs a program as root with no terminal, an empty standard input
	// and a plain environment, and waits for it. A program that did not
	// succeed is an *ExecError; what it printed until then is returned too. A
	// VM keeps 16 MiB of output, and waits until no other process has the program's
	// output open: a daemon that is started has to close it.
	Exec(ctx context.Context, argv ...string) (stdout []byte, err error)
	// Push writes a file and makes the folders above it.
	Push(ctx context.Context, path string, mode fs.FileMode, data []byte) error
	// Pull reads a file.
	Pull(ctx context.Context, path string) ([]byte, error)
	// WaitCloudInit waits until cloud-init has finished in this boot. Errors
	// that cloud-init reports for itself are an error here. In a copy of the
	// snapshot that has no UserData there is nothing to wait for.
	WaitCloudInit(ctx context.Context) error
	// Console is what the machine has printed on its console since its first boot.
	Console() ([]byte, error)

	// Reboot restarts in order and returns when the machine answers to Exec again.
	Reboot(ctx context.Context) error
	// PowerCut stops the machine between two instructions: nothing is synced,
	// no service is stopped.
	PowerCut(ctx context.Context) error
	// Stop shuts down in order.
	Stop(ctx context.Context) error
	// Start boots a machine that PowerCut, Stop or itself has stopped, with the
	// disks that it has by now, and returns when it answers to Exec.
	Start(ctx context.Context) error
	// Destroy takes the machine away for good, running or not. Its disks'
	// files stay.
	Destroy() error

	// Attach plugs a disk in and returns when its link is there.
	Attach(ctx context.Context, d Disk) error
	// Detach unplugs a disk, mounted or not in a VM; an nspawn node must not
	// have it mounted.
	Detach(ctx context.Context, volumeID string) error
	// Extend makes a disk larger, as Cinder does. A machine that runs sees it at once, one
	// that is off when it boots.
	Extend(ctx context.Context, volumeID string, size int64) error
	// SetFaults gives a disk of a VM other faults, or none, from the next request on;
	// the machine notices nothing else.
	SetFaults(ctx context.Context, volumeID string, faults ...Fault) error
}

// ExecError is a program that ran on a node and did not succeed.
type ExecError struct {
	Node     string
	Argv     []string
	ExitCode int // −1 when a signal ended it
	Stderr   []byte
}

func (e *ExecError) Error() string {
	return fmt.Sprintf("%s: %s: exit code %d: %s",
		e.Node, strings.Join(e.Argv, " "), e.ExitCode, strings.TrimSpace(string(e.Stderr)))
}

var nodeName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// complete checks a spec and fills in what was left to the lab.
func (s Spec) complete(taken map[netip.Addr]string) (Spec, error) {
	if !nodeName.MatchString(s.Name) {
		return s, fmt.Errorf("node name %q: want lower-case letters, digits and dashes, up to 32", s.Name)
	}
	if s.ServerID == "" {
		s.ServerID = uuid.NewString()
	}
	if _, err := uuid.Parse(s.ServerID); err != nil {
		return s, fmt.Errorf("node %s: server id %q: want a UUID, as Nova gives them", s.Name, s.ServerID)
	}
	if s.UserData == nil {
		s.UserData = []byte("#cloud-config\n{}\n")
	}
	if s.MemoryMiB == 0 && s.Kubelet != nil {
		s.MemoryMiB = kubeletMemoryMiB
	} else if s.MemoryMiB == 0 {
		s.MemoryMiB = defaultMemoryMiB
	}
	for _, d := range s.Disks {
		if d.VolumeID == "" || d.Path == "" {
			return s, fmt.Errorf("node %s: a disk needs a volume id and a file", s.Name)
		}
	}
	if !s.Address.IsValid() {
		s.Address = Gateway
		for _, used := taken[s.Address]; used; _, used = taken[s.Address] {
			s.Address = s.Address.Next()
		}
	}
	if !Subnet.Contains(s.Address) || !Subnet.Contains(s.Address.Next()) {
		return s, fmt.Errorf("node %s: address %s: want a free host address of %s", s.Name, s.Address, Subnet)
	}
	if who, used := taken[s.Address]; used {
		return s, fmt.Errorf("node %s: address %s belongs to %s", s.Name, s.Address, who)
	}
	return s, nil
}

// networkConfig is the seed's network-config: cloud-init's version 2 format.
func (s Spec) networkConfig(device string) []byte {
	addresses := []string{netip.PrefixFrom(s.Address, Subnet.Bits()).String()}
	for _, also := range s.Also {
		addresses = append(addresses, strconv.Quote(also.String()))
	}
	config := fmt.Appendf(nil, "version: 2\nethernets:\n  %s:\n    addresses: [%s]\n", device, strings.Join(addresses, ", "))
	var routes []string
	if s.Metadata {
		routes = append(routes, fmt.Sprintf("{to: 169.254.169.254/32, via: %s}", Gateway))
	}
	if s.Kubelet != nil {
		routes = append(routes, fmt.Sprintf("{to: 0.0.0.0/0, via: %s}", Gateway))
	}
	if routes != nil {
		config = fmt.Appendf(config, "    routes: [%s]\n", strings.Join(routes, ", "))
	}
	return config
}

// hosts is /etc/hosts of a machine with a kubelet: kubeadm looks its own name up.
func (s Spec) hosts() []byte {
	return fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", s.Address, s.Name)
}

func (s Spec) metaData() []byte {
	return fmt.Appendf(nil, "instance-id: %s\nlocal-hostname: %s\n", s.ServerID, s.Name)
}
