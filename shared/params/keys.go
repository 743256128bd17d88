package params

// The attribute names that more than one file of this package says.
const (
	keyAdditionalParams = "additionalParams"
	keyCluster          = "k8s_cluster_installation_param"
	keyRegistry         = "private_registry_installation_param"

	keyScriptPath      = "script_path"
	keyHelmScriptPath  = "helm_installation_script_path"
	keyMaster          = "master_node"
	keyWorker          = "worker_node"
	keyProxy           = "proxy"
	keyStorage         = "storage_server"
	keyPVs             = "pv_registration_params"
	keyManifestPath    = "pv_manifest_file_path"
	keyNFSServerCP     = "nfs_server_cp"
	keyMembers         = "cluster_members"
	keyKubernetes      = "kubernetes"
	keyRegistries      = "private_registry_connection_info"
	keyCertificatePath = "certificate_path"
	keyImagePath       = "image_path"

	keyAspectID = "aspect_id"
	keyVduID    = "vdu_id"
	keySSHCP    = "ssh_cp_name"
	keyNICCP    = "nic_cp_name"
	keyUsername = "username"
	keyPassword = "password"
	keyServer   = "server"

	keyVolumes   = "cinder_volume_setup_params"
	keyResource  = "volume_resource_id"
	keyMountTo   = "mount_to"
	keyExports   = "nfs_server_setup_params"
	keyExportDir = "export_dir"
	keyExportTo  = "export_to"
	keyOptions   = "export_options"
	keyAtHeal    = "persistent_volumes_at_heal"

	keyPodCIDR     = "pod_cidr"
	keyClusterCIDR = "cluster_cidr"
	keyClusterCP   = "cluster_cp_name"
	keyHosts       = "hosts_string"

	keyEndpointPort    = "endpoint_port"
	keyVersion         = "version"
	keyImageRepository = "image_repository"
	keyPodNetworkPath  = "pod_network_manifest_path"
	keyKubeadmPath     = "kubeadm_config_path"
	keyProgramPaths    = "program_archive_paths"
	keyImagePaths      = "image_archive_paths"
)
