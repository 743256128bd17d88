package params

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// testedKubernetes are the minor versions of Kubernetes that nodehitch is tested with: e2e/kubernetes makes
// clusters of each.
var testedKubernetes = []string{"1.34", "1.35"}

func (o *object) kubernetes() *Kubernetes {
	if o == nil {
		return nil
	}
	k := &Kubernetes{
		Version:           text(o, keyVersion, required, grammar.KubernetesVersion),
		ImageRepository:   text(o, keyImageRepository, optional, grammar.ImageRepository),
		PodNetworkPath:    text(o, keyPodNetworkPath, optional, grammar.PackagePath),
		KubeadmConfigPath: text(o, keyKubeadmPath, optional, grammar.PackagePath),
		ProgramPaths:      o.archivePaths(keyProgramPaths),
		ImagePaths:        o.archivePaths(keyImagePaths),
	}
	tested := func(minor string) bool { return strings.HasPrefix(k.Version, minor+".") }
	if k.Version != "" && !slices.ContainsFunc(testedKubernetes, tested) {
		o.r.warn(o.key(keyVersion), "%q is a version that nodehitch is not tested with; tested are those of %s", k.Version, strings.Join(testedKubernetes, " and "))
	}
	o.close()
	return k
}

// mostArchives bounds a list of archives.
const mostArchives = 32

// archivePaths reads a list of files of the package.
func (o *object) archivePaths(name string) []string {
	paths := o.texts(name, grammar.PackagePath)
	if len(paths) > mostArchives {
		o.r.fault(o.key(name), "names %d archives; at most %d are taken", len(paths), mostArchives)
	}
	return paths
}

// checkKubernetes says what the other attributes become if nodehitch makes the cluster.
func (o *object) checkKubernetes(c *Cluster) {
	if c.Kubernetes == nil {
		return
	}
	if c.ScriptPath != "" {
		o.r.warn(o.key(keyScriptPath), "is not run: with %s, nodehitch makes the cluster; the package need not have the script, and user_data must not", keyKubernetes)
	}
	if c.Proxy == nil || !c.Proxy.NodeCIDR.IsValid() {
		return
	}
	for _, network := range []struct {
		name string
		is   netip.Prefix
	}{{keyPodCIDR, c.Master.PodCIDR}, {keyClusterCIDR, c.Master.ClusterCIDR}} {
		if network.is.Overlaps(c.Proxy.NodeCIDR) {
			o.r.warn(o.at.Key(keyMaster), "has the %s %s, which overlaps k8s_node_cidr %s: a machine with an address in both is refused; choose another %s",
				network.name, network.is, c.Proxy.NodeCIDR, network.name)
		}
	}
}

// What kubeadm and the controller manager take, as of Kubernetes 1.34: each Node gets a part of
// pod_cidr of a fixed size.
const (
	serviceBits    = 20 // most bits of the host part of cluster_cidr
	fewestServices = 4  // least bits: kubeadm wants ten addresses
	podBits        = 16 // most bits between pod_cidr and the part of one Node
)

// checkNetworks refuses networks that no cluster can be made with. kubeadm's own configuration
// may alter the size of a Node's part, so what depends on it is refused only without one.
func (o *object) checkNetworks(m MasterNode, k *Kubernetes) {
	if o == nil {
		return
	}
	pods, services := m.PodCIDR, m.ClusterCIDR
	nodeMask := 24
	if pods.Addr().Is6() {
		nodeMask = 64
	}
	if pods.Overlaps(services) {
		o.r.fault(o.at, "has overlapping networks for pods (%s %s) and services (%s %s); with %s they must not overlap, choose another network for one of them",
			keyPodCIDR, pods, keyClusterCIDR, services, keyKubernetes)
	}
	if pods.Addr().Is4() != services.Addr().Is4() {
		o.r.fault(o.at, "has networks of different IP versions for pods (%s %s) and services (%s %s); with %s both must be IPv4, or both IPv6",
			keyPodCIDR, pods, keyClusterCIDR, services, keyKubernetes)
	}
	if host := services.Addr().BitLen() - services.Bits(); host > serviceBits || host < fewestServices {
		o.r.fault(o.key(keyClusterCIDR), "%s has 2^%d addresses; kubeadm takes a network of 2^%d to 2^%d", services, host, fewestServices, serviceBits)
	}
	switch {
	case k.KubeadmConfigPath != "":
	case pods.Bits() > nodeMask || nodeMask-pods.Bits() > podBits:
		o.r.fault(o.key(keyPodCIDR), "%s cannot be divided: each Node gets a /%d of it, so kubeadm takes a network from /%d to /%d", pods, nodeMask, nodeMask-podBits, nodeMask)
	case pods.Bits() == nodeMask:
		o.r.warn(o.key(keyPodCIDR), "%s is enough for one Node: each gets a /%d of it. Choose a larger network, unless the Pod network has its own way to give addresses", pods, nodeMask)
	}
}
