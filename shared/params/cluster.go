package params

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// The defaults of the user guide.
var (
	defaultPodCIDR     = netip.MustParsePrefix("192.168.0.0/16")
	defaultClusterCIDR = netip.MustParsePrefix("10.96.0.0/12")
)

func (o *object) cluster() *Cluster {
	c := &Cluster{
		ScriptPath:     text(o, keyScriptPath, required, grammar.PackagePath),
		VIMName:        text(o, "vim_name", optional, grammar.Label),
		HelmScriptPath: text(o, keyHelmScriptPath, optional, grammar.PackagePath),
	}
	c.Kubernetes = o.object(keyKubernetes, optional).kubernetes()
	c.Master = o.object(keyMaster, required).masterNode(c.Kubernetes)
	c.Worker = o.object(keyWorker, required).workerNode()
	c.Proxy = o.object(keyProxy, optional).proxy()
	c.StorageServer = o.object(keyStorage, optional).storageServer()
	for _, pv := range o.objects(keyPVs, optional) {
		c.PersistentVolumes = append(c.PersistentVolumes, pv.pvRegistration())
	}
	for _, conn := range o.objects(keyRegistries, optional) {
		c.Registries = append(c.Registries, conn.registryConnection())
	}
	c.Members = o.object(keyMembers, optional).clusterMembers()
	if c.Kubernetes != nil && c.Members == nil {
		c.Members = &ClusterMembers{EndpointPort: defaultEndpointPort, Access: AccessTacker}
	}
	o.close()
	o.crossCheck(c)
	return c
}

func (o *object) clusterNode() Node {
	n := Node{
		AspectID:  text(o, keyAspectID, optional, grammar.ResourceName),
		VduID:     text(o, keyVduID, optional, grammar.ResourceName),
		SSHCPName: text(o, keySSHCP, required, grammar.ResourceName),
		NICCPName: text(o, keyNICCP, optional, grammar.ResourceName),
		Username:  text(o, keyUsername, optional, grammar.UserName),
		Password:  o.secret(keyPassword),
	}
	if n.NICCPName == "" {
		n.NICCPName = n.SSHCPName
	}
	return n
}

func (o *object) masterNode(k *Kubernetes) MasterNode {
	m := MasterNode{
		Node:           o.clusterNode(),
		PodCIDR:        o.cidr(keyPodCIDR, defaultPodCIDR),
		ClusterCIDR:    o.cidr(keyClusterCIDR, defaultClusterCIDR),
		ClusterCPName:  text(o, keyClusterCP, required, grammar.ResourceName),
		ClusterFIPName: text(o, "cluster_fip_name", optional, grammar.ResourceName),
	}
	if k != nil {
		o.checkNetworks(m, k)
	} else if m.PodCIDR.Overlaps(m.ClusterCIDR) {
		o.warnOverlap(m)
	}
	o.explainPodCIDR(m)
	o.close()
	return m
}

// explainPodCIDR warns if a body in the form of Tacker's v2 samples leaves out pod_cidr: their
// scripts take 10.0.0.0/8, which contains cluster_cidr's default and often the nodes' network, so
// the default is the user guide's for them too.
func (o *object) explainPodCIDR(m MasterNode) {
	if o != nil && m.VduID != "" && !o.has(keyPodCIDR) {
		o.r.warn(o.at, "has no %s; taken as %s, the default with %s too. Tacker's v2 samples take 10.0.0.0/8, which overlaps %s %s",
			keyPodCIDR, m.PodCIDR, keyVduID, keyClusterCIDR, defaultClusterCIDR)
	}
}

func (o *object) warnOverlap(m MasterNode) {
	if o == nil {
		return
	}
	o.r.warn(o.at, "has overlapping networks for pods (%s %s) and services (%s %s); some services will not be reachable",
		keyPodCIDR, m.PodCIDR, keyClusterCIDR, m.ClusterCIDR)
}

func (o *object) workerNode() WorkerNode {
	w := WorkerNode{Node: o.clusterNode()}
	o.close()
	return w
}

// cidr reads a network and masks it, with a warning if that changes it: the
// PV specification's own sample has bits set in the host part.
func (o *object) cidr(name string, absent netip.Prefix) netip.Prefix {
	network := text(o, name, optional, grammar.CIDR)
	if !network.IsValid() {
		return absent
	}
	if masked := network.Masked(); masked != network {
		o.r.warn(o.key(name), "%s has host bits set; taken as %s", network, masked)
		return masked
	}
	return network
}

func (o *object) proxy() *Proxy {
	if o == nil {
		return nil
	}
	p := &Proxy{
		HTTP:     NewSecret(o.proxyAddress("http_proxy")),
		HTTPS:    NewSecret(o.proxyAddress("https_proxy")),
		NoProxy:  o.normal("no_proxy", optional, grammar.NoProxy),
		NodeCIDR: o.cidr("k8s_node_cidr", netip.Prefix{}),
	}
	o.close()
	return p
}

// proxyAddress is passed on as it is. The specifications' own value has a port that is no number, so that
// is a warning and no fault. It does not repeat what may be a password.
func (o *object) proxyAddress(name string) string {
	address := text(o, name, optional, grammar.Opaque)
	host := address[strings.LastIndex(address, "@")+1:] // a login may hold anything
	if _, after, found := strings.Cut(host, "://"); found {
		host = after
	}
	host, _, _ = strings.Cut(host, "/")
	if at := strings.LastIndex(host, ":"); at >= 0 && !strings.Contains(host[at:], "]") {
		if n, err := strconv.ParseUint(host[at+1:], 10, 16); err != nil || n == 0 {
			o.r.warn(o.key(name), "has a port that is no number from 1 to 65535: nothing is reached through this proxy")
		}
	}
	return address
}

func (o *object) pvRegistration() PVRegistration {
	pv := PVRegistration{
		ManifestPath: text(o, keyManifestPath, required, grammar.PackagePath),
		NFSServerCP:  text(o, keyNFSServerCP, required, grammar.ResourceName),
	}
	o.close()
	return pv
}
