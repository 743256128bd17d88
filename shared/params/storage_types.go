package params

import (
	"net/netip"
	"path"
	"strings"
)

// StorageServer is the VM that exports Cinder volumes over NFS. PV: storage_server.
type StorageServer struct {
	// SSHCPName is the CP (Heat port resource) of the VM; it identifies the role.
	// 1. PV: ssh_cp_name.
	SSHCPName string
	// NICCPName is another CP of the VM, empty if it is not given. 0..1.
	// Tacker's sample driver: nic_cp_name.
	NICCPName string
	// VduID is as in Node. 0..1, beyond the specification: vdu_id.
	VduID string
	// Username and Password are the VM's login, accepted and kept; no agent needs
	// them. PV: username, password.
	Username string
	Password Secret
	// Volumes are the volumes to mount, no resource and no directory twice and no
	// directory inside another. 1..N. PV: cinder_volume_setup_params.
	Volumes []Volume
	// Exports are the directories to export, each on one of Volumes. The same
	// directory may be here for several clients. 1..N. PV: nfs_server_setup_params.
	Exports []Export
	// KeepVolumes: a heal of the VM keeps its PersistentVolumes. 0..1, beyond the
	// specification: persistent_volumes_at_heal, "keep" or "withdraw". Default: withdraw, as
	// the specification has it.
	KeepVolumes bool
}

// ClientRecords is the directory in which the NFS server keeps the record of its clients, ""
// for its default. It lies on the first volume in the order of their mount points, which a VM
// that takes the place of this one has too.
func (s *StorageServer) ClientRecords() string {
	if !s.KeepVolumes || len(s.Volumes) == 0 {
		return ""
	}
	return path.Join(s.Volumes[s.first()].MountTo, ownDirectory, "nfs-clients")
}

// first is the index of the first volume in the order of the mount points.
func (s *StorageServer) first() (first int) {
	for i, v := range s.Volumes {
		if v.MountTo < s.Volumes[first].MountTo {
			first = i
		}
	}
	return first
}

// ownDirectory is the directory of a volume that is nodehitch's own.
const ownDirectory = ".nodehitch"

// Volume is one Cinder volume and where it is mounted.
type Volume struct {
	// ResourceID is the name of the OS::Cinder::Volume in the Heat template.
	// 1. PV: volume_resource_id.
	ResourceID string
	// MountTo is the directory that the volume is mounted on: absolute, clean, no
	// directory of the system. 1. PV: mount_to.
	MountTo string
}

// Export is one directory exported with the same options to some clients.
type Export struct {
	// Directory is absolute and clean, and equal to or under MountTo. 1. PV: export_dir.
	Directory string
	// To are the clients, none twice: CIDRs (masked), IP addresses, host names, or
	// grammar.Everybody; never export options. 1..N, PV: export_to, 1.
	To []string
	// Options are all options of the export, in the order of the exports file. 0..N,
	// beyond the specification: export_options. Default: those of Tacker's sample driver.
	Options []string
	// MountTo is the directory of the volume that Directory lies on: one of the
	// storage server's Volumes. Derived.
	MountTo string
}

// PVRegistration is one manifest of PersistentVolumes. PV: pv_registration_params.
type PVRegistration struct {
	// ManifestPath is the package path of the manifest. 1. PV: pv_manifest_file_path.
	ManifestPath string
	// NFSServerCP is the CP whose fixed address replaces spec.nfs.server in the
	// manifest. 1. PV: nfs_server_cp.
	NFSServerCP string
}

// ConnectionType is how a private registry is reached.
type ConnectionType int

// The connection types, with the specification's numbers.
const (
	HTTP  ConnectionType = 0
	HTTPS ConnectionType = 1
)

// Scheme is "http" or "https".
func (c ConnectionType) Scheme() string {
	if c == HTTPS {
		return "https"
	}
	return "http"
}

// RegistryConnection is one private registry that cluster nodes pull from.
// REG: private_registry_connection_info.
type RegistryConnection struct {
	// Type is HTTP or HTTPS. 1. REG: connection_type, "0" or "1".
	Type ConnectionType
	// Server is host or host:port exactly as image names write it; an IPv6 address
	// stands in brackets. 1. REG: server.
	Server string
	// Username and Password are the login, both or neither. 0..1. REG: username, password.
	Username string
	Password Secret
	// CertificatePath is the package path of the CA certificate for HTTPS, empty
	// for the system's own. 0..1. REG: certificate_path.
	CertificatePath string
	// HostsEntry is the line to add to /etc/hosts, nil for none. 0..1. REG: hosts_string.
	HostsEntry *HostsEntry
}

// HostsEntry is one line of /etc/hosts.
type HostsEntry struct {
	// Address is an IPv4 or IPv6 address without a zone.
	Address netip.Addr
	// Names are one or more host names.
	Names []string
}

// String is the line: address and names with one space between.
func (h HostsEntry) String() string {
	return h.Address.String() + " " + strings.Join(h.Names, " ")
}
