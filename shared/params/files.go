package params

import "github.com/nodehitch/nodehitch/shared/fault"

// Use is what a package file is used for, which decides what it must contain.
type Use string

// The uses of package files.
const (
	UseManifest      Use = "manifest"       // PersistentVolume objects
	UseCertificate   Use = "certificate"    // CA certificates, PEM
	UseImage         Use = "image"          // the registry's container image
	UseScript        Use = "script"         // a script that other software runs
	UsePodNetwork    Use = "pod-network"    // the objects of a cluster's Pod network
	UseKubeadmConfig Use = "kubeadm-config" // kubeadm's configuration of a cluster
	UsePrograms      Use = "programs"       // an archive of programs of Kubernetes
	UseImages        Use = "images"         // an archive of container images for Kubernetes
)

// FileUse is one place where the parameters name a file of the VNF package. A
// file that is named twice has two uses, and its content must suit both.
type FileUse struct {
	Use Use
	// Path is the file's path in the package, without a leading "./".
	Path string
	// Pointer is where the request names it.
	Pointer string
}

// Files is every use of a package file, in the order of the attributes' tables.
// at is the place of additionalParams, as given to Parse. Paths that validation
// refused are left out, so a Report's Partial may be asked too.
func Files(p *Params, at fault.At) []FileUse {
	var uses fileUses
	if p == nil {
		return nil
	}
	if c := p.Cluster; c != nil {
		uses.cluster(c, at.Key(keyCluster))
	}
	if r := p.Registry; r != nil {
		uses.add(UseImage, r.ImagePath, at.Key(keyRegistry).Key(keyImagePath))
	}
	return uses
}

type fileUses []FileUse

func (u *fileUses) add(use Use, path string, at fault.At) {
	if path != "" {
		*u = append(*u, FileUse{Use: use, Path: path, Pointer: string(at)})
	}
}

func (u *fileUses) cluster(c *Cluster, at fault.At) {
	if c.Kubernetes == nil { // else nobody runs it
		u.add(UseScript, c.ScriptPath, at.Key(keyScriptPath))
	}
	for i, pv := range c.PersistentVolumes {
		u.add(UseManifest, pv.ManifestPath, at.Key(keyPVs).Index(i).Key(keyManifestPath))
	}
	for i, r := range c.Registries {
		u.add(UseCertificate, r.CertificatePath, at.Key(keyRegistries).Index(i).Key(keyCertificatePath))
	}
	if k := c.Kubernetes; k != nil {
		at := at.Key(keyKubernetes)
		u.add(UsePodNetwork, k.PodNetworkPath, at.Key(keyPodNetworkPath))
		u.add(UseKubeadmConfig, k.KubeadmConfigPath, at.Key(keyKubeadmPath))
		for i, path := range k.ProgramPaths {
			u.add(UsePrograms, path, at.Key(keyProgramPaths).Index(i))
		}
		for i, path := range k.ImagePaths {
			u.add(UseImages, path, at.Key(keyImagePaths).Index(i))
		}
	}
	u.add(UseScript, c.HelmScriptPath, at.Key(keyHelmScriptPath))
}
