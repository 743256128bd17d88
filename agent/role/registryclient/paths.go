package registryclient

import (
	"path"
	"path/filepath"
)

// These are all files that the connections to registries touch. The operator's files keep
// their mode; new ones get the mode given here.
//
//	/etc/hosts                                0644  a block between two markers
//	/etc/docker/daemon.json                   0644  entries of insecure-registries; or the file that dockerd's --config-file names
//	/etc/docker/certs.d/<server>/ca.crt       0644  whole; nodehitch.crt if the operator has another ca.crt
//	/etc/containerd/config.toml               0644  config_path, if none is set; or the file that containerd's --config names
//	<config_path>/<server>/hosts.toml         0644  whole; refers to Docker's CA file
//	/root/.docker/config.json                 0600  entries of auths
//	/var/lib/kubelet/config.json              0600  entries of auths; or in the directory that kubelet's --root-dir names
const (
	hostsPath          = "/etc/hosts"
	daemonJSONPath     = "/etc/docker/daemon.json"
	dockerCertificates = "/etc/docker/certs.d"
	dockerLogins       = "/root/.docker/config.json"
	kubeletLogins      = "/var/lib/kubelet/config.json"

	certificateName      = "ca.crt"
	otherCertificateName = "nodehitch.crt"
	hostsTOMLName        = "hosts.toml"
	defaultDirectory     = "_default" // what containerd reads for servers without one

	publicMode = 0o644
	secretMode = 0o600
)

// The units of the engines.
const (
	dockerUnit     = "docker.service"
	containerdUnit = "containerd.service"
	kubeletUnit    = "kubelet.service"
)

// ownName reports whether a path can be one of the files that are ours as a whole.
func ownName(file string) bool {
	switch filepath.Base(file) {
	case certificateName, otherCertificateName, hostsTOMLName:
		return filepath.IsAbs(file) && path.Clean(file) == file
	}
	return false
}
