package plan

import (
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
)

// addKubernetes gives masters and workers the section by which their agents make the machines
// members of the cluster. Without it a program of the user's does.
func (o *Output) addKubernetes(in Input, owner *Node) {
	o.keepRenewal(in)
	u := o.upgrade(in, owner)
	o.beginRenewal(in)
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Role == api.RoleMaster || n.Role == api.RoleWorker {
			u.add(n)
		}
	}
}

// addKubernetes gives a master or worker the section with this version.
func (n *Node) addKubernetes(in Input, version string) {
	k := in.Params.Cluster.Kubernetes
	section := &api.KubernetesSection{Version: version, ImageRepository: k.ImageRepository}
	if k.KubeadmConfigPath != "" && n.Role == api.RoleMaster { // it is read where the cluster is made
		section.KubeadmConfig = n.file(in, api.SectionKubernetes, k.KubeadmConfigPath)
	}
	section.ProgramArchives = n.files(in, api.SectionKubernetes, k.ProgramPaths)
	section.ImageArchives = n.files(in, api.SectionKubernetes, k.ImagePaths)
	if !n.withholds(api.SectionKubernetes) && n.takes(in, api.SectionKubernetes, section) {
		n.Config.Kubernetes = section
	}
}

// isWithoutKubernetes withholds the section cluster from a server that lacks the section
// kubernetes: its agent would wait for a program to join the machine, or have one make the
// cluster.
func (n *Node) isWithoutKubernetes() bool {
	w := n.why(api.SectionKubernetes)
	if w == nil || n.Config.Kubernetes != nil { // it has the version that it is at, and waits for another
		return false
	}
	n.withholdAs(*w, api.SectionCluster, "nodehitch makes the cluster, and the server is not given the section kubernetes: "+w.Message)
	return true
}

// addControlPlane gives the masters what they do besides being members.
func (o *Output) addControlPlane(in Input) {
	if in.Params.Cluster.Kubernetes == nil {
		return
	}
	section := &api.ControlPlaneSection{SharedAddress: o.sharedAddress(in)}
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if n.Role != api.RoleMaster {
			continue
		}
		if w := n.why(api.SectionCluster); w != nil { // there is no control plane, or its endpoint is not known
			n.withholdAs(*w, api.SectionControlPlane, w.Message)
			continue
		}
		own := *section
		own.RenewCertificates = n.ID == o.CarriedOver.Renews
		if n.takes(in, api.SectionControlPlane, &own) {
			n.Config.ControlPlane = &own
		}
	}
}

// sharedAddress is the endpoint's address if it is one of the stack itself, which the masters
// hold in turn; empty if it is a server's own.
func (o *Output) sharedAddress(in Input) string {
	address := o.CarriedOver.Endpoint
	has := func(p api.ConnectionPoint) bool {
		return p.Name == in.Params.Cluster.Master.ClusterCPName && slices.Contains(p.Addresses, address)
	}
	isServers := func(n Node) bool { return slices.Contains(n.Addresses, address) }
	if !slices.ContainsFunc(in.Topology.ConnectionPoints, has) || slices.ContainsFunc(o.Nodes, isServers) {
		return ""
	}
	return address
}

// addPodNetwork gives the owner, a member, the network of the cluster's Pods.
func (o *Output) addPodNetwork(in Input, owner *Node) {
	k := in.Params.Cluster.Kubernetes
	if k == nil {
		return
	}
	section := &api.PodNetworkSection{}
	if k.PodNetworkPath != "" {
		section.Manifest = owner.file(in, api.SectionPodNetwork, k.PodNetworkPath)
	}
	if !owner.withholds(api.SectionPodNetwork) && owner.takes(in, api.SectionPodNetwork, section) {
		owner.Config.PodNetwork = section
	}
}
