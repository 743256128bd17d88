package params

import (
	"net/netip"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// Params are the additionalParams of one VNF: exactly one member is set.
type Params struct {
	// Cluster is the Kubernetes cluster VNF. PV, REG: k8s_cluster_installation_param.
	Cluster *Cluster
	// Registry is the private registry VNF. REG: private_registry_installation_param.
	Registry *Registry
}

// ClusterMembers is Cluster.Members, nil also without a cluster or parameters.
func (p *Params) ClusterMembers() *ClusterMembers {
	if p == nil || p.Cluster == nil {
		return nil
	}
	return p.Cluster.Members
}

// Report is what validation found. Faults make the input unacceptable; warnings
// never do. Pointers start at the root of the user's document.
type Report struct {
	Faults, Warnings fault.List
	// Partial is what could be read in spite of the faults, nil if nothing
	// could. What was refused is zero in it, and lists keep their length. It
	// serves to look for further faults (Files, CheckFile), never to act on.
	Partial *Params
	// Architectures are those of an image or of programs, see Image; the caller knows the nodes'.
	Architectures []string
	// Holds are the programs, or the images, of an archive, for CheckArchives.
	Holds []string
}

// Cluster is a Kubernetes cluster VNF: masters, workers, and optionally a
// storage server and connections to private registries.
type Cluster struct {
	// ScriptPath is the package path of the script that installs the base
	// cluster. It is kept, and checked to exist unless nodehitch makes the
	// cluster; the agents do not run it.
	// 1. GUIDE: script_path.
	ScriptPath string
	// VIMName is the name that Tacker registers the cluster under as a VIM. Empty
	// means the default kubernetes_vim_<vnfInstanceId>, which is not known here.
	// 0..1. GUIDE: vim_name.
	VIMName string
	// Master and Worker are the two roles of cluster nodes. 1 each.
	// GUIDE: master_node, worker_node.
	Master MasterNode
	Worker WorkerNode
	// Proxy is how the nodes reach the internet, nil for directly. 0..1. GUIDE: proxy.
	Proxy *Proxy
	// StorageServer exports Cinder volumes over NFS; nil if there is none.
	// 0..1. PV: storage_server.
	StorageServer *StorageServer
	// PersistentVolumes are the manifests to register, in the order given. Only
	// with a StorageServer. 0..N. PV: pv_registration_params.
	PersistentVolumes []PVRegistration
	// Registries are the private registries that masters and workers connect to,
	// no server twice. 0..N. REG: private_registry_connection_info.
	Registries []RegistryConnection
	// Members has nodehitch help servers to become and to cease to be members of the
	// cluster; nil leaves that to others. Kubernetes implies it. 0..1, beyond the
	// specifications: cluster_members.
	Members *ClusterMembers
	// Kubernetes has nodehitch make the cluster and join its machines; nil leaves that to the
	// image or to a script. 0..1, beyond the specifications: kubernetes.
	Kubernetes *Kubernetes
	// HelmScriptPath is the package path of the script that installs Helm, empty
	// where there is none. Kept like ScriptPath. 0..1. Tacker's sample driver:
	// helm_installation_script_path.
	HelmScriptPath string
}

// Node is what master_node and worker_node have in common.
type Node struct {
	// AspectID is the name of the Heat group (scaling aspect) of the role's
	// servers; empty means that its CPs stand in the top stack. 0..1. GUIDE: aspect_id.
	AspectID string
	// VduID is the VDU of the role's servers, the name of their OS::Nova::Server in the
	// Heat template. 0..1, beyond the specifications: vdu_id, as Tacker's v2 samples have it.
	VduID string
	// SSHCPName is the CP (Heat port resource) of the role's servers. It
	// identifies the role: no other role has it. 1. GUIDE: ssh_cp_name.
	SSHCPName string
	// NICCPName is the CP that cluster traffic uses. Default: SSHCPName. GUIDE: nic_cp_name.
	NICCPName string
	// Username and Password are the VM's login, accepted for compatibility and
	// kept; no agent needs them, so they may be absent. GUIDE: username, password.
	Username string
	Password Secret
}

// MasterNode is the role of control plane nodes. GUIDE: master_node.
type MasterNode struct {
	Node
	// PodCIDR is the network of the pods, masked. Default 192.168.0.0/16, also for a body in
	// the form of Tacker's v2 samples, whose scripts take another; see explainPodCIDR.
	// 0..1. GUIDE: pod_cidr.
	PodCIDR netip.Prefix
	// ClusterCIDR is the network of the services, masked. Default 10.96.0.0/12.
	// 0..1. GUIDE: cluster_cidr.
	ClusterCIDR netip.Prefix
	// ClusterCPName is the CP whose address is the API server's: the master's own,
	// or the virtual IP's port where there are several masters. 1. GUIDE: cluster_cp_name.
	ClusterCPName string
	// ClusterFIPName is the Heat resource of the cluster's floating IP, empty if
	// there is none. 0..1. GUIDE: cluster_fip_name.
	ClusterFIPName string
}

// ClusterMembers is how nodehitch helps with the members of a cluster that others install.
type ClusterMembers struct {
	// EndpointPort is the TCP port of the API server at the address of ClusterCPName.
	// 0..1: endpoint_port. Default 6443.
	EndpointPort uint16
	// DeleteUnmanagedPods lets a Node be drained of Pods that no controller makes again.
	// 0..1: delete_unmanaged_pods. Default false.
	DeleteUnmanagedPods bool
	// Access is what the VIM may do in the cluster. 0..1: cluster_access. Default
	// AccessTacker.
	Access ClusterAccess
}

// ClusterAccess is what a VIM may do in a cluster.
type ClusterAccess string

// What a VIM may do: what Tacker's Kubernetes driver needs, or everything.
const (
	AccessTacker ClusterAccess = "tacker"
	AccessAdmin  ClusterAccess = "cluster-admin"
)

// Kubernetes is the cluster that nodehitch makes with kubeadm.
type Kubernetes struct {
	// Version is that of Kubernetes, x.y.z. 1: version.
	Version string
	// ImageRepository is where the images of Kubernetes are pulled from, empty for kubeadm's
	// default. 0..1: image_repository.
	ImageRepository string
	// PodNetworkPath is the package path of the objects of the Pods' network, empty if the
	// image brings the network. 0..1: pod_network_manifest_path.
	PodNetworkPath string
	// KubeadmConfigPath is the package path of kubeadm's own configuration of the cluster,
	// empty for none. 0..1: kubeadm_config_path.
	KubeadmConfigPath string
	// ProgramPaths are the package paths of archives of programs for machines whose image lacks
	// them, see ReadPrograms; none if the image has all. 0..N: program_archive_paths.
	ProgramPaths []string
	// ImagePaths are the package paths of archives of container images, which each machine is
	// given; none if the image has them, or if they are pulled. 0..N: image_archive_paths.
	ImagePaths []string
}

// WorkerNode is the role of worker nodes. GUIDE: worker_node.
type WorkerNode struct {
	Node
}

// Proxy is how a node reaches what is outside its network.
type Proxy struct {
	// HTTP and HTTPS are the proxies for either scheme, empty for none. They are
	// opaque text without white space or control characters: the specifications'
	// own value http://user1:password1@host1:port1 is no URL. Secrets, because
	// they may contain a password. 0..1 each. GUIDE: http_proxy, https_proxy.
	HTTP, HTTPS Secret
	// NoProxy lists, separated by commas, what is reached directly; opaque like
	// the proxies. 0..1. GUIDE: no_proxy.
	NoProxy string
	// NodeCIDR is the network of the nodes, masked; the zero Prefix where it is not
	// given. It is reached directly too. 0..1. GUIDE: k8s_node_cidr.
	NodeCIDR netip.Prefix
}

// Registry is a private registry VNF: one VM that runs the registry container.
type Registry struct {
	// SSHCPName is the CP (Heat port resource) of the registry's VM; it
	// identifies the role. 1. REG: ssh_cp_name.
	SSHCPName string
	// VduID is as in Node. 0..1, beyond the specification: vdu_id.
	VduID string
	// Username is the login whose home directory has the registry's data where it
	// has no Volume. Default ubuntu. REG: ssh_username.
	Username string
	// Password is accepted and kept; no agent needs it. REG: ssh_password.
	Password Secret
	// ImagePath is the package path of the registry's image as `docker save` wrote
	// it; empty means to pull it. 0..1. REG: image_path.
	ImagePath string
	// Port is the TCP port of the registry service, 1 to 65535. Default 5000.
	// 0..1. REG: port_no.
	Port uint16
	// Volume is where the registry's data lies; nil means on the VM's own disk.
	// 0..1, beyond the specification: volume_resource_id and mount_to, as in
	// cinder_volume_setup_params.
	Volume *Volume
	// Proxy is how the VM reaches the internet, nil for directly. 0..1. Tacker's
	// registry user guide: proxy.
	Proxy *Proxy
}

// DataDirectory is the host directory of the registry's data. REG, `docker run -v`.
// On a volume it is a directory below the mount point: a container that is given
// the mount point itself would go on there, on the VM's own disk, when the volume
// is away.
func (r *Registry) DataDirectory() string {
	if r.Volume != nil {
		return r.Volume.MountTo + "/registry"
	}
	return "/home/" + r.Username + "/registry"
}
