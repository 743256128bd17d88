package params

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// kubeadmKinds are the documents that may stand in kubeadm_config_path, with the version that
// each needs.
var kubeadmKinds = map[string]string{
	"ClusterConfiguration":   "kubeadm.k8s.io/v1beta4",
	"KubeletConfiguration":   "kubelet.config.k8s.io/v1beta1",
	"KubeProxyConfiguration": "kubeproxy.config.k8s.io/v1alpha1",
}

// clusterMembersOfKubeadm are the members of a ClusterConfiguration, as of Kubernetes 1.34.
var clusterMembersOfKubeadm = []string{
	"apiVersion", "kind", "etcd", "networking", "kubernetesVersion", "controlPlaneEndpoint", "apiServer", "controllerManager", "scheduler",
	"dns", "proxy", "certificatesDir", "imageRepository", "featureGates", "clusterName", "encryptionAlgorithm",
	"certificateValidityPeriod", "caCertificateValidityPeriod",
}

const (
	kubeadmCluster = "ClusterConfiguration"
	kubeadmProxy   = "KubeProxyConfiguration"
)

func (c *fileCheck) kubeadmConfig(data []byte) {
	documents, err := strict.Documents(data)
	if err != nil {
		c.faults(err)
		return
	}
	if len(documents) == 0 {
		c.fault("holds no document; expected %s", strings.Join(kubeadmDocuments(), ", "))
		return
	}
	first := newFirsts()
	for i, document := range documents {
		r := &reader{}
		node, broken := jsontree.Parse(document)
		kind := c.kubeadmDocument(r, manifestObject{node: node, broken: broken})
		if earlier, again := first.seen(kind, i); again {
			r.fault("/kind", "is %q, as of object %d already; at most one of each kind is taken", kind, earlier+1)
		}
		if faults := r.faults.sorted(nil, fault.Root); len(faults) > 0 {
			c.faults(ofObject(faults, i, len(documents)))
		}
		for _, w := range ofObject(r.warnings.sorted(nil, fault.Root), i, len(documents)) {
			c.warn("at %.300s: %s", w.Pointer, w.Message)
		}
	}
}

// kubeadmDocuments are the documents that are taken, as text.
func kubeadmDocuments() (list []string) {
	for kind, version := range kubeadmKinds {
		list = append(list, kind+" ("+version+")")
	}
	slices.Sort(list)
	return list
}

// kubeadmDocument checks one document and returns its kind, empty if that is refused.
func (c *fileCheck) kubeadmDocument(r *reader, found manifestObject) string {
	o := r.object(found)
	if o == nil {
		return ""
	}
	kind := text(o, "kind", required, kubeadmKind)
	if kind == "" {
		return ""
	}
	text(o, "apiVersion", required, func(s string) (string, error) {
		if want := kubeadmKinds[kind]; s != want {
			return "", fmt.Errorf("is %s; expected %q, which kubeadm of every supported version reads (`kubeadm config migrate` converts an older one)", grammar.Show(s), want)
		}
		return s, nil
	})
	switch kind {
	case kubeadmCluster:
		c.clusterConfiguration(o)
	case kubeadmProxy:
		if c.cluster() != nil {
			o.sameNetwork("clusterCIDR", keyPodCIDR, c.cluster().Master.PodCIDR)
		}
	}
	return kind
}

func kubeadmKind(s string) (string, error) {
	if _, known := kubeadmKinds[s]; known {
		return s, nil
	}
	switch s {
	case "InitConfiguration", "JoinConfiguration":
		return "", fmt.Errorf("is %q, which nodehitch writes for each machine; leave the document out", s)
	}
	return "", fmt.Errorf("is %s; expected one of %s", grammar.Show(s), strings.Join(kubeadmDocuments(), ", "))
}

// cluster is that of the parameters, nil if they are not known.
func (c *fileCheck) cluster() *Cluster {
	if c.params == nil || c.params.Cluster == nil || c.params.Cluster.Kubernetes == nil {
		return nil
	}
	return c.params.Cluster
}

// clusterConfiguration refuses what nodehitch decides, if it says something else.
func (c *fileCheck) clusterConfiguration(o *object) {
	if endpoint := o.node.Get("controlPlaneEndpoint"); endpoint != nil && endpoint.Kind != jsontree.Null {
		o.r.fault(o.at.Key("controlPlaneEndpoint"), "is given; leave it out: nodehitch sets it to the address of cluster_cp_name and endpoint_port")
	}
	for _, m := range o.node.Members {
		if slices.Contains(clusterMembersOfKubeadm, m.Name) {
			continue
		}
		message := "is not known to nodehitch; kubeadm refuses a member that it does not know"
		if near := nearest.Name(m.Name, clusterMembersOfKubeadm); near != "" {
			message += "; did you mean " + grammar.Show(near) + "?"
		}
		o.r.warn(o.at.Key(m.Name), "%s", message)
	}
	if dir := text(o, "certificatesDir", optional, anything); dir != "" && dir != "/etc/kubernetes/pki" {
		o.r.fault(o.at.Key("certificatesDir"), "is %s; expected /etc/kubernetes/pki, or leave it out", grammar.Show(dir))
	}
	cluster := c.cluster()
	if cluster == nil {
		return
	}
	k := cluster.Kubernetes
	if given := text(o, "kubernetesVersion", optional, anything); given != "" && k.Version != "" && strings.TrimPrefix(given, "v") != k.Version {
		o.r.fault(o.at.Key("kubernetesVersion"), "is %s, and %s of %s is %q; leave it out, or make them equal", grammar.Show(given), keyVersion, keyKubernetes, k.Version)
	}
	if given := text(o, "imageRepository", optional, anything); given != "" && given != k.ImageRepository {
		o.r.fault(o.at.Key("imageRepository"), "is %s, and %s of %s is %q; give it there alone: every machine pulls its images from it", grammar.Show(given), keyImageRepository, keyKubernetes, k.ImageRepository)
	}
	networking := o.object("networking", optional)
	networking.sameNetwork("podSubnet", keyPodCIDR, cluster.Master.PodCIDR)
	networking.sameNetwork("serviceSubnet", keyClusterCIDR, cluster.Master.ClusterCIDR)
}

// sameNetwork refuses a network that is another one than the parameters'.
func (o *object) sameNetwork(name, attribute string, want netip.Prefix) {
	given := text(o, name, optional, anything)
	if given == "" {
		return
	}
	if network, err := netip.ParsePrefix(given); err != nil || network.Masked() != want {
		o.r.fault(o.at.Key(name), "is %s, and %s of %s is %s; leave it out, or make them equal", grammar.Show(given), attribute, keyMaster, want)
	}
}
