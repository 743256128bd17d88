package api

// The condition types. Each is owned by one step of the agent; Ready is the
// agent's own, True when every condition that the document's sections call for
// is True for that document.
const (
	ConditionReady                       = "Ready"
	ConditionVolumesMounted              = "VolumesMounted"
	ConditionExportsServed               = "ExportsServed"
	ConditionNFSClientInstalled          = "NFSClientInstalled"
	ConditionRegistryRunning             = "RegistryRunning"
	ConditionRegistriesConnected         = "RegistriesConnected"
	ConditionPersistentVolumesRegistered = "PersistentVolumesRegistered"
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
	ReasonMultiAttached     Reason = "MultiAttached"
	ReasonMountPointBusy    Reason = "MountPointBusy"
	ReasonMountFailed       Reason = "MountFailed"
	ReasonMounted           Reason = "Mounted"

	ReasonNotMounted       Reason = "NotMounted"
	ReasonServerNotRunning Reason = "ServerNotRunning"
	ReasonExportRefused    Reason = "ExportRefused"
	ReasonServed           Reason = "Served"

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
	ReasonFileMissing        Reason = "FileMissing"
	ReasonAgentTooOld        Reason = "AgentTooOld"

	ReasonWaitingForExports         Reason = "WaitingForExports"
	ReasonConnectionPointUnresolved Reason = "ConnectionPointUnresolved"
)

// ReasonDoc says what a reason means and what the reader should do.
type ReasonDoc struct{ Meaning, Action string }

// Reasons explains every reason. A reason that is not here is a bug, which a
// test of each package that reports reasons would show.
var Reasons = map[Reason]ReasonDoc{
	ReasonReady:    {"every condition that the document calls for is True for that document", ""},
	ReasonNotReady: {"at least one condition that the document calls for is not True", "look at the conditions that are not True"},

	ReasonWaitingForDevice:  {"no disk with the volume's id is attached", "attach the Cinder volume to this server; the agent then continues"},
	ReasonAmbiguousDevice:   {"more than one disk has the volume's id or its filesystem UUID", "detach the copy; the agent touches neither"},
	ReasonSizeMismatch:      {"the disk's size is not the size of the Cinder volume, or too small for a filesystem", "check that the right volume is attached"},
	ReasonForeignData:       {"the disk holds something that nodehitch did not put there", "keep it with `hitchctl volume adopt`, or lose it with `hitchctl volume reformat`"},
	ReasonUnreadable:        {"the agent could not read the disk, so it cannot prove that it is blank", "look for I/O errors in the kernel log; the agent tries again and does not format until it can read the disk"},
	ReasonNoPermit:          {"the controller does not permit this node to format this volume", "read the message; a volume is formatted once in its life"},
	ReasonFormatInterrupted: {"a format began and its node disappeared before it was complete", "`hitchctl volume reformat` permits a new one"},
	ReasonFormatFailed:      {"mkfs or the check of its result failed", "read the message; the agent resumes the same format"},
	ReasonMultiAttached:     {"the volume is attached to more than one server", "detach it from all but one"},
	ReasonMountPointBusy:    {"something else is mounted at the mount path, or the directory under it is not empty", "move it away, or choose another mount_to"},
	ReasonMountFailed:       {"systemd could not mount the volume", "read the message and the unit's journal"},
	ReasonMounted:           {"the volume with the assigned filesystem UUID is mounted at its path", ""},

	ReasonNotMounted:       {"the volume of an exported directory, or of a registry's data, is not mounted, so its data is not served", "see VolumesMounted"},
	ReasonServerNotRunning: {"nfs-server is not active", "read the unit's journal; the agent starts it again"},
	ReasonExportRefused:    {"exportfs did not accept an entry, or the kernel does not serve it", "read the message"},
	ReasonServed:           {"exportfs reports exactly the desired entries and nfs-server is active", ""},

	ReasonInstalled:          {"the distribution's package is installed", ""},
	ReasonPackageUnavailable: {"the distribution's package could not be installed", "check the package sources and the proxy"},
	ReasonPackageManagerBusy: {"another process holds the package manager's lock", "wait; the agent continues when the lock is free"},

	ReasonEngineNotRunning:    {"the node has no container engine, or the engine does not answer", "read the message and the unit's journal; the agent then continues"},
	ReasonEngineConfigInvalid: {"the agent cannot read the engine's configuration, or what it has to add contradicts it; the file is unchanged", "correct the file that the message names; the agent then continues"},
	ReasonFileUnavailable:     {"the agent could not fetch a file of the configuration completely from the controller", "read the message; the agent resumes the download"},
	ReasonImageNotFound:       {"the registry's image is not in the given file, or could not be pulled", "give an image file that `docker save registry:latest` wrote, or let the node reach the public registry"},
	ReasonPortInUse:           {"another program listens on the registry's port", "stop the program that the message names, or choose another port_no; the agent then continues"},
	ReasonNameTaken:           {"a container private_registry exists that nodehitch did not make", "rename or remove it; the agent never touches it"},
	ReasonNotAnswering:        {"the container runs and GET /v2/ does not answer as a registry", "look at `docker logs private_registry`; the agent tries again"},
	ReasonDirectoryUnusable:   {"the registry's data directory is not a directory, or a link on its volume leads to it", "read the message, which names the path"},
	ReasonRunning:             {"the container runs as desired and GET /v2/ answers on its port", ""},

	ReasonUnreachable:          {"a registry does not answer, or the answer is not a registry's", "check the registry and the network path to it; the agent then continues"},
	ReasonUnauthorized:         {"a registry refuses the login", "give the right username and password: `hitchctl apply`"},
	ReasonCertificateRejected:  {"neither the given CA nor the system's CAs have signed a registry's certificate", "give the CA's certificate as certificate_path, or correct the registry's certificate"},
	ReasonLegacyRegistryConfig: {"containerd is configured by registry.mirrors or registry.configs; with them, config_path would keep it from starting", "move these settings to /etc/containerd/certs.d and remove them; the agent then continues"},
	ReasonConnected:            {"the node's engines are configured for every registry, and each answers and accepts the login", ""},

	ReasonClusterNotInstalled:     {"the node has no valid kubeconfig, or no API server answers", "read the message: install the cluster, renew the kubeconfig's credentials, or look at the API server; the agent then continues"},
	ReasonForeignPersistentVolume: {"a PersistentVolume of that name exists that nodehitch did not make", "rename or delete it, or give the manifest another name; the agent never touches it"},
	ReasonSourceImmutable:         {"a PersistentVolume points to another server or path, which Kubernetes does not allow to change, and it is in use, so it cannot be deleted and made again", "delete its claim, if it has one, and then the PersistentVolume; the agent then continues"},
	ReasonManifestRejected:        {"the API server does not accept a manifest; an unknown field is enough", "read the message, correct the manifest, and upload it again"},
	ReasonInUse:                   {"a PersistentVolume of the storage server is bound to a claim, so it is not deleted; if all of the server are to be deleted, none is", "delete the claim that the message names, and repeat the operation if it failed"},
	ReasonStuckTerminating:        {"a PersistentVolume was deleted and is not gone, because something protects it", "look at its claim and its finalizers: `kubectl get pv -o yaml`; the agent continues when it is gone"},
	ReasonRegistered:              {"each PersistentVolume is in the cluster with the desired source, and no other one of nodehitch's points to the storage server", ""},
	ReasonAbsent:                  {"none of nodehitch's PersistentVolumes in the cluster points to the storage server", ""},

	ReasonInvalidDocument:      {"this agent does not understand the configuration", "update the agent; the controller's log names the field"},
	ReasonConverging:           {"the agent is converging the node", ""},
	ReasonInternalError:        {"an unexpected error", "read the message; the agent tries again"},
	ReasonNoSpace:              {"the node's own disk is full, so the agent cannot write its files", "make room on it (`df -h / /var /etc /run`); the agent then continues"},
	ReasonStateDamaged:         {"the agent cannot read a file in which it keeps what it has done on this node, so it changes nothing that depends on the file", "read the message, which names the file and says what depends on it"},
	ReasonRemoved:              {"the section is empty; the agent has removed what it owned of it", ""},
	ReasonWaitingForController: {"the section changes more than this node, and the controller has not confirmed it since the agent connected", "find out why the agent does not reach the controller: `nodehitch-agent status`"},

	ReasonNotEnrolled:               {"the server is in the topology and its agent has not enrolled", "look at the VM's console, or run on the VM `journalctl -u nodehitch-bootstrap -u nodehitch-agent`"},
	ReasonNotReported:               {"the node has not reported this condition for its present document", "wait, or look at `nodehitch-agent status` on the node"},
	ReasonTopologyIncomplete:        {"a role that the parameters require has no server in the topology", "give the topology with the operation, or allow a partial one: `--partial`, \"partial\": true"},
	ReasonAgentTooOld:               {"the node's agent does not understand a section of its configuration, so the section is withheld; it converges the others", "upgrade the node's agent; the controller gives the section with the agent's next poll"},
	ReasonFileMissing:               {"a package file that the parameters name is not on the controller, or not valid", "upload it: `hitchctl apply --package`"},
	ReasonWaitingForExports:         {"the storage server does not serve the exports of its present document yet; PersistentVolumes are registered after that", "look at the storage server's conditions; the controller then continues"},
	ReasonConnectionPointUnresolved: {"nfs_server_cp of the parameters is not a connection point of the storage server, or has no address", "give the connection point in the topology, or correct the parameter"},
	ReasonVolumeUnresolved:          {"a volume_resource_id of the parameters is not in the topology, or not attached to the server that has to mount it", "give the volume's id in topology.volumes and its server's volumeIds"},
}
