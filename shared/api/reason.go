package api

// The condition types. Each is owned by one step of the agent; Ready is the
// agent's own, True if every condition that the document's sections call for
// is True for that document.
const (
	ConditionReady                       = "Ready"
	ConditionVolumesMounted              = "VolumesMounted"
	ConditionExportsServed               = "ExportsServed"
	ConditionNFSClientInstalled          = "NFSClientInstalled"
	ConditionRegistryRunning             = "RegistryRunning"
	ConditionRegistriesConnected         = "RegistriesConnected"
	ConditionPersistentVolumesRegistered = "PersistentVolumesRegistered"
	ConditionEngineReady                 = "EngineReady"
	ConditionKubernetesInstalled         = "KubernetesInstalled"
	ConditionClusterMember               = "ClusterMember"
	ConditionControlPlaneHealthy         = "ControlPlaneHealthy"
	ConditionPodNetworkReady             = "PodNetworkReady"
	ConditionClusterMembersCurrent       = "ClusterMembersCurrent"
	ConditionClusterMembersLeft          = "ClusterMembersLeft"
	ConditionClusterMembersDrained       = "ClusterMembersDrained"
	ConditionClusterAccessReady          = "ClusterAccessReady"
)

// The reasons of conditions. They are part of the API: programs may switch on
// them, so a name never changes its meaning. Reasons explains each for people.
const (
	ReasonReady    Reason = "Ready"
	ReasonNotReady Reason = "NotReady"

	ReasonWaitingForDevice  Reason = "WaitingForDevice"
	ReasonAmbiguousDevice   Reason = "AmbiguousDevice"
	ReasonSizeMismatch      Reason = "SizeMismatch"
	ReasonForeignData       Reason = "ForeignData"
	ReasonUnreadable        Reason = "Unreadable"
	ReasonNoPermit          Reason = "NoPermit"
	ReasonFormatInterrupted Reason = "FormatInterrupted"
	ReasonFormatFailed      Reason = "FormatFailed"
	ReasonGrowFailed        Reason = "GrowFailed"
	ReasonMultiAttached     Reason = "MultiAttached"
	ReasonMountPointBusy    Reason = "MountPointBusy"
	ReasonMountFailed       Reason = "MountFailed"
	ReasonMounted           Reason = "Mounted"

	ReasonNotMounted       Reason = "NotMounted"
	ReasonServerNotRunning Reason = "ServerNotRunning"
	ReasonExportRefused    Reason = "ExportRefused"
	// ReasonClientsNotRecorded is what PersistentVolumes that are kept at a heal need.
	ReasonClientsNotRecorded Reason = "ClientsNotRecorded"
	ReasonServed             Reason = "Served"

	ReasonInstalled          Reason = "Installed"
	ReasonPackageUnavailable Reason = "PackageUnavailable"
	ReasonPackageManagerBusy Reason = "PackageManagerBusy"

	ReasonEngineNotRunning    Reason = "EngineNotRunning"
	ReasonEngineConfigInvalid Reason = "EngineConfigInvalid"
	ReasonFileUnavailable     Reason = "FileUnavailable"
	ReasonImageNotFound       Reason = "ImageNotFound"
	ReasonPortInUse           Reason = "PortInUse"
	ReasonNameTaken           Reason = "NameTaken"
	ReasonNotAnswering        Reason = "NotAnswering"
	ReasonDirectoryUnusable   Reason = "DirectoryUnusable"
	ReasonRunning             Reason = "Running"

	ReasonUnreachable          Reason = "Unreachable"
	ReasonUnauthorized         Reason = "Unauthorized"
	ReasonCertificateRejected  Reason = "CertificateRejected"
	ReasonLegacyRegistryConfig Reason = "LegacyRegistryConfig"
	ReasonConnected            Reason = "Connected"

	ReasonClusterNotInstalled     Reason = "ClusterNotInstalled"
	ReasonForeignPersistentVolume Reason = "ForeignPersistentVolume"
	ReasonSourceImmutable         Reason = "SourceImmutable"
	ReasonManifestRejected        Reason = "ManifestRejected"
	ReasonInUse                   Reason = "InUse"
	ReasonStuckTerminating        Reason = "StuckTerminating"
	ReasonRegistered              Reason = "Registered"
	ReasonAbsent                  Reason = "Absent"

	ReasonEngineRunning      Reason = "EngineRunning"
	ReasonProgramMissing     Reason = "ProgramMissing"
	ReasonVersionDiffers     Reason = "VersionDiffers"
	ReasonSwapOn             Reason = "SwapOn"
	ReasonModuleMissing      Reason = "ModuleMissing"
	ReasonCgroupUnsupported  Reason = "CgroupUnsupported"
	ReasonNetworksOverlap    Reason = "NetworksOverlap"
	ReasonImageUnavailable   Reason = "ImageUnavailable"
	ReasonWaitingForCluster  Reason = "WaitingForCluster"
	ReasonJoinFailed         Reason = "JoinFailed"
	ReasonComponentUnhealthy Reason = "ComponentUnhealthy"
	ReasonQuorumLost         Reason = "QuorumLost"
	ReasonAddressUnavailable Reason = "AddressUnavailable"
	ReasonHealthy            Reason = "Healthy"
	ReasonUpgradeFailed      Reason = "UpgradeFailed"
	ReasonWaitingForTurn     Reason = "WaitingForTurn"
	ReasonRenewalFailed      Reason = "RenewalFailed"
	ReasonDNSUnavailable     Reason = "DNSUnavailable"
	ReasonNetworkReady       Reason = "NetworkReady"

	ReasonNotJoined       Reason = "NotJoined"
	ReasonNodeNotReady    Reason = "NodeNotReady"
	ReasonJoined          Reason = "Joined"
	ReasonMembersCurrent  Reason = "MembersCurrent"
	ReasonEvictionBlocked Reason = "EvictionBlocked"
	ReasonUnmanagedPods   Reason = "UnmanagedPods"
	ReasonQuorumAtRisk    Reason = "QuorumAtRisk"
	ReasonMembersLeft     Reason = "MembersLeft"
	ReasonMembersDrained  Reason = "MembersDrained"
	ReasonAccessGranted   Reason = "AccessGranted"

	ReasonInvalidDocument      Reason = "InvalidDocument"
	ReasonConverging           Reason = "Converging"
	ReasonInternalError        Reason = "InternalError"
	ReasonNoSpace              Reason = "NoSpace"
	ReasonStateDamaged         Reason = "StateDamaged"
	ReasonRemoved              Reason = "Removed"
	ReasonWaitingForController Reason = "WaitingForController"

	ReasonNotEnrolled        Reason = "NotEnrolled"
	ReasonNotReported        Reason = "NotReported"
	ReasonTopologyIncomplete Reason = "TopologyIncomplete"
	ReasonVolumeUnresolved   Reason = "VolumeUnresolved"
	ReasonOldServerMayWrite  Reason = "OldServerMayWrite"
	ReasonVolumeReplaced     Reason = "VolumeReplaced"
	ReasonFileMissing        Reason = "FileMissing"
	ReasonAgentTooOld        Reason = "AgentTooOld"

	ReasonWaitingForExports         Reason = "WaitingForExports"
	ReasonConnectionPointUnresolved Reason = "ConnectionPointUnresolved"
)

// ReasonDoc says what a reason means and what the reader should do.
type ReasonDoc struct {
	Meaning, Action string
	// Final says that no waiting mends a condition that has failed for this reason, and no
	// section that is withheld for it: somebody has to act. What the cloud or an agent's next
	// attempt may mend is not final.
	Final bool
}

// The values of Final.
const (
	final   = true
	passing = false
)

// Reasons explains every reason. A reason that is not here is a bug, which a
// test of each package that reports reasons would show.
var Reasons = map[Reason]ReasonDoc{
	ReasonReady:    {"every condition that the document calls for is True for that document", "", passing},
	ReasonNotReady: {"at least one condition that the document calls for is not True", "look at the conditions that are not True", passing},

	ReasonWaitingForDevice:  {"no disk with the volume's id is attached", "attach the Cinder volume to this server; the agent then continues", passing},
	ReasonAmbiguousDevice:   {"more than one disk has the volume's id or its filesystem UUID", "detach the copy; until then the agent changes none of them", passing},
	ReasonSizeMismatch:      {"the disk's size is not the size of the Cinder volume, or it is too small for its filesystem", "check that the right volume is attached; send the new size of an extended volume", passing},
	ReasonForeignData:       {"the disk holds data that nodehitch did not write", "run `hitchctl volume adopt` to keep an ext4, or `hitchctl volume reformat` to erase the disk", final},
	ReasonUnreadable:        {"the agent cannot read the disk, so it cannot check that the disk is blank", "look for I/O errors in the kernel log; the agent tries again and formats only a disk that it can read", passing},
	ReasonNoPermit:          {"the controller does not permit this node to format this volume", "read the message; a volume is formatted only once", passing},
	ReasonFormatInterrupted: {"the node that was formatting the volume disappeared before the format was complete", "run `hitchctl volume reformat` to permit a new format; it erases the volume", final},
	ReasonGrowFailed:        {"the filesystem of an extended volume could not grow; it stays mounted and served as it is", "read the message; the agent tries again. The kernel refuses a filesystem with errors (`dmesg`): unmount it, check it with `e2fsck`, and the agent continues", passing},
	ReasonFormatFailed:      {"mkfs or the check of its result failed", "read the message; the agent tries the same format again", passing},
	ReasonMultiAttached:     {"the volume is attached to more than one server", "detach it from all but one", passing},
	ReasonMountPointBusy:    {"something else is mounted at the mount path, or the directory under it is not empty", "unmount it or empty the directory, or choose another mount_to", final},
	ReasonMountFailed:       {"systemd could not mount the volume", "read the message and the unit's journal", passing},
	ReasonMounted:           {"each volume is mounted at its path, with its assigned filesystem UUID", "", passing},

	ReasonNotMounted:         {"the volume of an exported directory, or of a registry's data, is not mounted, so its data is not served", "look at the condition VolumesMounted", passing},
	ReasonServerNotRunning:   {"nfs-server is not active", "read the message and the unit's journal; the agent starts it again, and waits while systemd has a job for it (`systemctl list-jobs`)", passing},
	ReasonClientsNotRecorded: {"the NFS server does not keep the record of its clients on the volume, so a server that replaces this one would refuse them their locks", "read the message, which says what to do", passing},
	ReasonExportRefused:      {"exportfs refused an entry, or the kernel does not serve it", "read the message", final},
	ReasonServed:             {"nfs-server is active, and exportfs lists exactly the desired entries", "", passing},

	ReasonInstalled:          {"what the condition names is installed", "", passing},
	ReasonPackageUnavailable: {"the distribution's package could not be installed", "check the package sources and the proxy", passing},
	ReasonPackageManagerBusy: {"another process holds the package manager's lock", "wait; the agent continues when the lock is free", passing},

	ReasonEngineNotRunning:    {"the node has no container engine, one that the agent does not configure, or one that does not answer", "read the message and the unit's journal; the agent then continues", passing},
	ReasonEngineConfigInvalid: {"the agent cannot read the engine's configuration, or the settings to add contradict it; the file is unchanged", "correct the file that the message names; the agent then continues", passing},
	ReasonFileUnavailable:     {"the agent has not downloaded a file of its configuration completely", "read the message; the agent resumes the download", passing},
	ReasonImageNotFound:       {"the given file does not contain the registry's image, or the image could not be pulled", "provide an image file that `docker save registry:latest` wrote, or give the node access to the public registry", final},
	ReasonPortInUse:           {"another program or container uses a port that the registry or Kubernetes needs, or Docker keeps it for a container that does not run", "stop what the message names, restart Docker if the message says so, or choose another port_no for a registry; the agent then continues", passing},
	ReasonNameTaken:           {"a container named private_registry exists, and nodehitch did not create it", "rename or remove it; the agent never changes it", final},
	ReasonNotAnswering:        {"the container runs, but GET /v2/ does not answer as a registry", "read `docker logs private_registry`; the agent tries again", passing},
	ReasonDirectoryUnusable:   {"the registry's data directory is not a directory, leads into a directory of the system, or its path leads through a symbolic link on the volume", "read the message, and move away what it names", final},
	ReasonRunning:             {"the container runs as desired and GET /v2/ answers on its port", "", passing},

	ReasonUnreachable:          {"a registry does not answer, or its answer is not that of a registry", "check the registry and the network path to it; the agent then continues", passing},
	ReasonUnauthorized:         {"a registry refuses the login", "correct the username and password in the parameters, and run `hitchctl apply`", final},
	ReasonCertificateRejected:  {"a registry's certificate is signed neither by the given CA nor by one of the system's CAs", "set certificate_path to the CA's certificate, or correct the registry's certificate", final},
	ReasonLegacyRegistryConfig: {"containerd's configuration has registry.mirrors or registry.configs; it does not start if config_path is added to these", "move these settings to /etc/containerd/certs.d and remove them; the agent then continues", passing},
	ReasonConnected:            {"the node's engines are configured for every registry, and each answers and accepts the login; the message names each one that asked for no login, so that the given one could not be tried", "", passing},

	ReasonClusterNotInstalled:     {"the node has no valid kubeconfig, or no API server answers", "read the message: install the cluster, renew the kubeconfig's credentials, or look at the API server; the agent then continues", passing},
	ReasonForeignPersistentVolume: {"a PersistentVolume of that name exists, and nodehitch did not create it", "rename or delete it, or give the manifest another name; the agent never changes it", final},
	ReasonSourceImmutable:         {"a PersistentVolume has another server or path than its manifest. Kubernetes does not let these change, and the PersistentVolume is in use, so the agent cannot delete and recreate it", "delete its claim, if it has one, and then the PersistentVolume; the agent then continues", final},
	ReasonManifestRejected:        {"the API server refuses a manifest, for example because of an unknown field", "read the message, correct the manifest, and upload it again", final},
	ReasonInUse:                   {"a PersistentVolume of the storage server is bound to a claim, so it is not deleted; if all PersistentVolumes of the server are to be deleted, none of them is", "delete the claim that the message names, or make the server's name resolve on the master if that is what the message asks for; repeat the operation if it failed", passing},
	ReasonStuckTerminating:        {"a PersistentVolume was deleted but still exists, because something protects it", "look at its claim and its finalizers: `kubectl get pv -o yaml`; the agent continues when it is gone", passing},
	ReasonRegistered:              {"each PersistentVolume is in the cluster with its server and path, and nodehitch has no others for the storage server there", "", passing},
	ReasonAbsent:                  {"the cluster has no PersistentVolume of nodehitch's for the storage server", "", passing},

	ReasonEngineRunning:      {"containerd runs and offers kubelet its interface (CRI)", "", passing},
	ReasonProgramMissing:     {"kubeadm or kubelet is not on the machine, or systemd has no kubelet.service", "put them into the machine's image, or give their archives (program_archive_paths); the agent then continues", passing},
	ReasonVersionDiffers:     {"kubeadm or kubelet on the machine has another version than the parameters", "take an image or an archive with that version, or change version in kubernetes; the agent then continues", passing},
	ReasonSwapOn:             {"the machine swaps, and kubelet does not start with swap", "turn it off (`swapoff -a`) and take it out of /etc/fstab, or set failSwapOn in kubeadm_config_path", passing},
	ReasonModuleMissing:      {"the kernel lacks a module or a setting that Pods need, and the agent could not set it", "read the message; install the module, or take another image", passing},
	ReasonCgroupUnsupported:  {"this version of Kubernetes refuses the machine's cgroups", "take an image with cgroup v2", final},
	ReasonNetworksOverlap:    {"pod_cidr or cluster_cidr contains an address of this machine or of a master", "choose other networks, before the cluster is made", final},
	ReasonImageUnavailable:   {"an image of Kubernetes could not be pulled, or an archive of images could not be imported", "read the message, which names the image or the archive, and has the engine's answer; correct image_repository, image_archive_paths or the network; the agent tries again", passing},
	ReasonWaitingForCluster:  {"another master makes the cluster; this machine joins it after that", "look at the masters' conditions", passing},
	ReasonJoinFailed:         {"kubeadm could not make the cluster, or join the machine to it", "read the message, which has kubeadm's last lines; the agent tries again", passing},
	ReasonComponentUnhealthy: {"a component of this master's control plane does not answer, or says that it is not healthy", "read the message, and the component's log in /var/log/pods; kubelet starts it again", passing},
	ReasonQuorumLost:         {"etcd has no quorum: too many masters are gone or do not answer, so nothing in the cluster can be changed", "bring back the masters that do not answer; if they are gone for good, take the steps of docs/quorum-lost.md", passing},
	ReasonAddressUnavailable: {"the machine cannot take part in holding the address that the masters share, or waits for it", "read the message: move away a configuration of keepalived that is not nodehitch's, or read `journalctl -u keepalived`; the agent then continues", passing},
	ReasonHealthy:            {"this master's API server is ready, and so are its etcd, controller manager and scheduler", "", passing},
	ReasonUpgradeFailed:      {"kubeadm could not upgrade this member, or etcd's snapshot before that could not be written", "read the message, which has the last lines of kubeadm's output; the agent tries again, and no other member is upgraded meanwhile", passing},
	ReasonWaitingForTurn:     {"the member has another version than the parameters, and others are upgraded before it", "look at the members that are being upgraded: `hitchctl get nodes -o wide`", passing},
	ReasonRenewalFailed:      {"the certificates of this master's control plane could not be renewed, or what uses them not be restarted", "read the message, which has the last lines of kubeadm's output; the agent tries again", passing},
	ReasonDNSUnavailable:     {"no replica of CoreDNS is available, so Pods find no Service by name", "run `kubectl -n kube-system get pods -l k8s-app=kube-dns`; the agent looks again", passing},
	ReasonNetworkReady:       {"the network's objects are applied, each Node is Ready, and CoreDNS is available", "", passing},

	ReasonNotJoined:       {"the machine is no member of the cluster: it has no kubelet credentials, or the cluster has no Node with its server id", "read the journal of the program that joins it, with kubernetes in the parameters the agent's; if the Node was deleted, restart kubelet on a worker, or reset and join a master again; the agent then continues", passing},
	ReasonNodeNotReady:    {"the machine's Node is in the cluster and is not Ready", "run `kubectl describe node`, and read kubelet's journal; the agent continues when the Node is Ready", passing},
	ReasonJoined:          {"the machine's Node is in the cluster and Ready", "", passing},
	ReasonMembersCurrent:  {"each server without a Node has a valid bootstrap token, and no Node of a deleted server is left", "", passing},
	ReasonEvictionBlocked: {"a PodDisruptionBudget, or a Pod that does not end, keeps a Node from being drained whose member leaves or is upgraded", "run more replicas elsewhere, or change the PodDisruptionBudget that the message names; the agent tries again until the operation's deadline", passing},
	ReasonUnmanagedPods:   {"Pods that no controller would make again run on a Node whose member leaves or is upgraded", "delete them, or set delete_unmanaged_pods in cluster_members; an upgrade then continues, and a START that has failed is posted again, or by force", passing},
	ReasonQuorumAtRisk:    {"etcd would have no quorum without the master that leaves: too many of the others have given no healthy answer for 30 seconds", "make the other masters' etcd members healthy, then repeat the operation", final},
	ReasonMembersLeft:     {"no server that leaves has a Node or an etcd member any more", "", passing},
	ReasonMembersDrained:  {"no Pod that has to leave is on the Nodes of the members that are upgraded", "", passing},
	ReasonAccessGranted:   {"the cluster has the service account of the VIM with its rights, and a valid token", "", passing},

	ReasonInvalidDocument:      {"the agent does not understand its configuration", "read the message, which names the field; upgrade the agent", final},
	ReasonConverging:           {"the agent is working towards this condition", "", passing},
	ReasonInternalError:        {"an unexpected error", "read the message; the agent tries again", passing},
	ReasonNoSpace:              {"the node's own disk is full, so the agent cannot write its files", "free space on it (`df -h / /var /etc /run`); the agent then continues", passing},
	ReasonStateDamaged:         {"the agent cannot read a file of its own state, so it changes nothing that depends on the file", "read the message, which names the file and says what depends on it", passing},
	ReasonRemoved:              {"the section of the configuration is empty, and the agent has removed everything that it owned of it", "", passing},
	ReasonWaitingForController: {"the section changes more than this node, and the controller has not confirmed it on the present connection", "run `nodehitch-agent status` on the node; it says why the agent does not reach the controller", passing},

	ReasonNotEnrolled:               {"the server is in the topology, but its agent has not enrolled", "look at the VM's console, or run `journalctl -u nodehitch-bootstrap -u nodehitch-agent` on the VM", passing},
	ReasonNotReported:               {"the node has not reported this condition for its present configuration", "wait, or run `nodehitch-agent status` on the node", passing},
	ReasonTopologyIncomplete:        {"a role that the parameters require has no server in the topology", "send the topology with the operation, or allow a partial one (`hitchctl operate --partial`)", passing},
	ReasonAgentTooOld:               {"the node's agent does not understand a section of its configuration, so the controller withholds it; the other sections are converged", "upgrade the node's agent; the controller sends the section at its next poll", passing},
	ReasonFileMissing:               {"the controller does not have a package file that the parameters name, or the file is not valid", "upload the file with `hitchctl apply --package`", passing},
	ReasonWaitingForExports:         {"the storage server does not serve the exports of its present configuration yet; PersistentVolumes are registered after that", "look at the storage server's conditions; the controller continues when ExportsServed is True", passing},
	ReasonConnectionPointUnresolved: {"nfs_server_cp in the parameters is not a connection point of the storage server, or the connection point has no address", "add the connection point to the topology, or correct the parameter", final},
	ReasonOldServerMayWrite:         {"the PersistentVolumes are kept, and it is not known that the storage server which had the volumes before is gone: the new one mounts none of them until then", "look at the old server in the cloud; if you know that it is off for good, post an END with oldServerIsOff, also while one waits: `hitchctl operate INSTANCE HEAL --vnfc-instance-id NEW_SERVER --old-server-is-off`", passing},
	ReasonVolumeReplaced:            {"the PersistentVolumes are kept, and the topology has another volume than the one that they are on: no storage server mounts it, because they would lead to other data", "give the storage server the volume that the message names, or delete the claims and heal with withdraw; if the other volume has their data, run `hitchctl volume adopt`", final},
	ReasonVolumeUnresolved:          {"a volume_resource_id in the parameters is not in the topology, or its volume is not attached to the server that has to mount it", "correct volume_resource_id, or add the volume to topology.volumes and to its server's volumeIds", final},
}
