package kubeadm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// document is one of kubeadm's.
type document = map[string]any

const apiVersion = "kubeadm.k8s.io/v1beta4"

// criSocket is containerd's. kubeadm finds it by itself only if there is no other engine.
const criSocket = "unix:///run/containerd/containerd.sock"

// clusterKind is the kind of the document to which the sections add what they say.
const clusterKind = "ClusterConfiguration"

// ownDocuments are those of the file of the section, none if it has no file. The error is
// fs.ErrNotExist if the file is not downloaded yet.
func (m *Machine) ownDocuments(s *api.KubernetesSection) ([]document, error) {
	if s.KubeadmConfig == nil {
		return nil, nil
	}
	file, err := m.Files.Open(*s.KubeadmConfig)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := yaml.NewYAMLOrJSONDecoder(file, 4096)
	var all []document
	for {
		var d document
		err := reader.Decode(&d)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("the file of kubeadm's configuration: %w", err)
		case d != nil:
			all = append(all, d)
		}
	}
}

// ofKind is the document of a kind, nil if there is none.
func ofKind(all []document, kind string) document {
	i := slices.IndexFunc(all, func(d document) bool { return d["kind"] == kind })
	if i < 0 {
		return nil
	}
	return all[i]
}

// config is kubeadm's configuration of these documents.
func (m *Machine) config(c *api.ClusterSection, documents ...document) (host.KubeadmConfig, error) {
	var text bytes.Buffer
	for _, d := range documents {
		one, err := json.Marshal(d) // which is YAML, too
		if err != nil {
			return host.KubeadmConfig{}, err
		}
		text.WriteString("---\n")
		text.Write(one)
		text.WriteByte('\n')
	}
	secrets := []string{c.BootstrapToken}
	if c.CertificateKey != "" {
		secrets = append(secrets, c.CertificateKey)
	}
	return host.KubeadmConfig{Documents: text.Bytes(), Secrets: secrets}, nil
}

// initDocuments are those that make a cluster: those of the file, and what the sections say.
func (m *Machine) initDocuments(desired *api.NodeConfig, ignored []string) ([]document, error) {
	documents, err := m.ownDocuments(desired.Kubernetes)
	if err != nil {
		return nil, err
	}
	c := desired.Cluster
	cluster := ofKind(documents, clusterKind)
	if cluster == nil {
		cluster = document{"apiVersion": apiVersion, "kind": clusterKind}
		documents = append(documents, cluster)
	}
	cluster["kubernetesVersion"] = "v" + desired.Kubernetes.Version
	cluster["controlPlaneEndpoint"] = c.Endpoint
	if desired.Kubernetes.ImageRepository != "" {
		cluster["imageRepository"] = desired.Kubernetes.ImageRepository
	}
	networking := member(cluster, "networking")
	networking["podSubnet"], networking["serviceSubnet"] = c.PodCIDR, c.ServiceCIDR
	if c.ExternalAddress != "" {
		apiServer := member(cluster, "apiServer")
		names, _ := apiServer["certSANs"].([]any)
		if !slices.Contains(names, any(c.ExternalAddress)) {
			apiServer["certSANs"] = append(names, c.ExternalAddress)
		}
	}
	return append(documents, document{
		"apiVersion": apiVersion, "kind": "InitConfiguration",
		// The own token makes no other one needed. It is deleted once the machine has a Node.
		"bootstrapTokens":  []any{document{"token": c.BootstrapToken, "ttl": "24h0m0s"}},
		"certificateKey":   c.CertificateKey,
		"localAPIEndpoint": m.localAPIEndpoint(c),
		"nodeRegistration": m.registration(desired, ignored),
	}), nil
}

// joinDocument is the one that joins this machine.
func (m *Machine) joinDocument(desired *api.NodeConfig, ignored []string) document {
	c := desired.Cluster
	d := document{
		"apiVersion": apiVersion, "kind": "JoinConfiguration",
		"discovery": document{"bootstrapToken": document{
			"token": c.BootstrapToken, "apiServerEndpoint": c.Endpoint, "caCertHashes": []any{c.CACertificateHash},
		}},
		"nodeRegistration": m.registration(desired, ignored),
		// The next pass tries again, and other work of the agent is not held up as long.
		"timeouts": document{"discovery": "1m0s"},
	}
	if desired.Role == api.RoleMaster {
		d["controlPlane"] = document{"localAPIEndpoint": m.localAPIEndpoint(c), "certificateKey": c.CertificateKey}
	}
	return d
}

// finishDocument ends the join of a master whose kubelet has its credentials, with those of the
// administrator that the attempt has made: its token is gone by then. As a kubelet of a master
// gets its credentials from its own API server, the etcd member is there and has its vote, and
// kubeadm would wait in vain to give it one. If the authority is lost, kubeadm gets it again.
func (m *Machine) finishDocument(desired *api.NodeConfig, authority bool) document {
	d := m.joinDocument(desired, nil)
	d["discovery"] = document{"file": document{"kubeConfigPath": adminKubeconfig}}
	skipped := []any{"preflight", "control-plane-prepare", "check-etcd", "kubelet-start", "etcd-join", "kubelet-wait-bootstrap"}
	if !authority {
		skipped = slices.Delete(skipped, 1, 2)
	}
	d["skipPhases"] = skipped
	return d
}

// registration is what makes the Node this server's, and how its kubelet starts. A master that
// holds the shared address must not take it for the Node's own.
func (m *Machine) registration(desired *api.NodeConfig, ignored []string) document {
	args := []any{document{"name": "provider-id", "value": "openstack:///" + m.ServerID}}
	if own := m.Address(desired.Cluster); own != "" && shared(desired) != "" {
		args = append(args, document{"name": "node-ip", "value": own})
	}
	d := document{"criSocket": criSocket, "kubeletExtraArgs": args}
	if ignored = append(ignored, m.unverifiable(desired.Kubernetes)...); len(ignored) > 0 {
		d["ignorePreflightErrors"] = ignored
	}
	return d
}

// localAPIEndpoint is where this master's API server listens: at its first address, and at the
// port of the cluster's endpoint.
func (m *Machine) localAPIEndpoint(c *api.ClusterSection) document {
	local := document{}
	if port := port(c); port != 0 {
		local["bindPort"] = port
	}
	if address := m.Address(c); address != "" {
		local["advertiseAddress"] = address
	}
	return local
}

// Address is this master's first address, "" if the section has none.
func (m *Machine) Address(c *api.ClusterSection) string {
	for _, s := range c.Masters {
		if s.ServerID == m.ServerID && len(s.Addresses) > 0 {
			return s.Addresses[0]
		}
	}
	return ""
}

// shared is the address that the masters share, "" if there is none.
func shared(desired *api.NodeConfig) string {
	if desired.ControlPlane == nil {
		return ""
	}
	return desired.ControlPlane.SharedAddress
}

// port is that of the cluster's endpoint, 0 if it has none.
func port(c *api.ClusterSection) int {
	endpoint, err := netip.ParseAddrPort(c.Endpoint)
	if err != nil {
		return 0
	}
	return int(endpoint.Port())
}

// member is the member of a document that is an object. It is made if it is missing.
func member(d document, name string) document {
	if m, ok := d[name].(document); ok {
		return m
	}
	m := document{}
	d[name] = m
	return m
}

// repeated are the checks of kubeadm's that an interrupted attempt makes fail, and that kubeadm
// takes up again. They are ignored only after one.
func repeated(c *api.ClusterSection) []string {
	all := []string{
		"FileAvailable--etc-kubernetes-kubelet.conf", "FileAvailable--etc-kubernetes-bootstrap-kubelet.conf",
		"FileAvailable--etc-kubernetes-pki-ca.crt", "DirAvailable--etc-kubernetes-manifests", "DirAvailable--var-lib-etcd",
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		all = append(all, "FileAvailable--etc-kubernetes-manifests-"+component+".yaml")
	}
	for _, taken := range []int{2379, 2380, 10250, 10257, 10259, port(c)} {
		all = append(all, fmt.Sprint("Port-", taken))
	}
	return all
}
