package plan

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// addCluster gives each master and worker what it needs to join the cluster, and the owner
// what keeps the cluster's members and its access current.
func (o *Output) addCluster(in Input, owner *Node) {
	c := in.Params.Cluster
	o.CarriedOver.Endpoint = o.endpoint(in, owner)
	section := api.ClusterSection{
		PodCIDR: c.Master.PodCIDR.String(), ServiceCIDR: c.Master.ClusterCIDR.String(), Masters: o.clusterServers(api.RoleMaster),
	}
	if o.CarriedOver.Endpoint != "" {
		section.Endpoint = hostPort(o.CarriedOver.Endpoint, c.Members)
		o.Endpoint = section.Endpoint
	}
	if floating := o.floatingAddress(in); floating != "" && o.Endpoint != "" {
		section.ExternalAddress, o.Endpoint = floating, hostPort(floating, c.Members)
	}
	if len(o.CarriedOver.Members) > 0 { // else the hash is of a cluster that is no more
		section.CACertificateHash = in.Cluster.CACertificateHash
	}
	key := certificateKey(in.Cluster.Secret, section.Masters)
	for i := range o.Nodes {
		switch n := &o.Nodes[i]; n.Role {
		case api.RoleMaster:
			own := section
			own.Initialize = n == owner && o.CarriedOver.Initialize
			own.CertificateKey = key
			n.addClusterSection(in, own)
		case api.RoleWorker:
			own := section
			own.ExternalAddress = ""
			n.addClusterSection(in, own)
		}
	}
	o.addControlPlane(in)
	if owner != nil {
		o.addClusterOwned(in, owner)
	}
}

func hostPort(address string, m *params.ClusterMembers) string {
	return net.JoinHostPort(address, strconv.Itoa(int(m.EndpointPort)))
}

// addClusterSection gives a server the section, with its own token.
func (n *Node) addClusterSection(in Input, section api.ClusterSection) {
	if section.Endpoint == "" {
		n.withhold(api.SectionCluster, api.ReasonConnectionPointUnresolved, fmt.Sprintf(
			"cluster_cp_name %q is no connection point of the stack or of a master with an address; give it in the topology's connectionPoints, or in those of the master",
			in.Params.Cluster.Master.ClusterCPName))
		return
	}
	if n.isWithoutKubernetes() {
		return
	}
	section.BootstrapToken = bootstrapToken(in.Cluster.Secret, n.ID)
	if n.takes(in, api.SectionCluster, &section) {
		n.Config.Cluster = &section
	}
}

// addClusterOwned gives the owner what only a member can do for the cluster.
func (o *Output) addClusterOwned(in Input, owner *Node) {
	if !slices.Contains(o.CarriedOver.Members, owner.ID) {
		sections := []string{api.SectionClusterMembers, api.SectionClusterDepartures, api.SectionClusterAccess}
		if in.Params.Cluster.Kubernetes != nil {
			sections = append(sections, api.SectionClusterDrains, api.SectionPodNetwork)
		}
		for _, section := range sections {
			owner.waitFor(owner, section, api.ReasonNotJoined, fmt.Sprintf("the master %s (%s) is no member of the cluster yet", owner.Name, owner.ID))
		}
		return
	}
	members := &api.ClusterMembersSection{Members: []api.ClusterMember{}}
	for _, n := range o.Nodes {
		if (n.Role == api.RoleMaster || n.Role == api.RoleWorker) && !in.leaves(n.ID) {
			members.Members = append(members.Members, api.ClusterMember{ServerID: n.ID, Name: n.Name, Addresses: append([]string{}, n.Addresses...),
				Role: n.Role, BootstrapToken: bootstrapToken(in.Cluster.Secret, n.ID)})
		}
	}
	if owner.takes(in, api.SectionClusterMembers, members) {
		owner.Config.ClusterMembers = members
	}
	o.addDepartures(in, owner)
	o.addDrains(in, owner)
	o.addPodNetwork(in, owner)
	access := &api.ClusterAccessSection{Role: api.ClusterAccessSectionRole(in.Params.Cluster.Members.Access)}
	if owner.takes(in, api.SectionClusterAccess, access) {
		owner.Config.ClusterAccess = access
	}
}

// clusterServers are the servers of a role, ordered by id.
func (o *Output) clusterServers(role api.Role) []api.ClusterServer {
	list := []api.ClusterServer{}
	for _, n := range o.Nodes {
		if n.Role == role {
			list = append(list, clusterServer(n))
		}
	}
	return list
}

func clusterServer(n Node) api.ClusterServer {
	return api.ClusterServer{ServerID: n.ID, Name: n.Name, Addresses: append([]string{}, n.Addresses...)}
}

// endpoint is the address of cluster_cp_name, empty for none: the one before while it is one,
// else that of the stack itself, of the owner, of the first other master. An endpoint that
// moved with the owner would have every machine join again.
func (o *Output) endpoint(in Input, owner *Node) string {
	var first string
	for _, p := range o.clusterPoints(in, owner, in.Params.Cluster.Master.ClusterCPName) {
		if slices.Contains(p.Addresses, in.CarriedOver.Endpoint) {
			return in.CarriedOver.Endpoint
		}
		if first == "" && len(p.Addresses) > 0 {
			first = p.Addresses[0]
		}
	}
	return first
}

// floatingAddress is the one of cluster_fip_name, empty for none.
func (o *Output) floatingAddress(in Input) string {
	for _, p := range o.clusterPoints(in, nil, in.Params.Cluster.Master.ClusterFIPName) {
		if len(p.FloatingAddresses) > 0 {
			return p.FloatingAddresses[0]
		}
	}
	return ""
}

// clusterPoints are the connection points of that name: of the stack itself, of the master
// first, of all masters by id.
func (o *Output) clusterPoints(in Input, first *Node, name string) (list []api.ConnectionPoint) {
	add := func(points []api.ConnectionPoint) {
		for _, p := range points {
			if p.Name == name {
				list = append(list, p)
			}
		}
	}
	add(in.Topology.ConnectionPoints)
	ofServer := map[string][]api.ConnectionPoint{}
	for _, s := range in.Topology.Servers {
		ofServer[s.ID] = s.ConnectionPoints
	}
	if first != nil {
		add(ofServer[first.ID])
	}
	for _, n := range o.Nodes {
		if n.Role == api.RoleMaster {
			add(ofServer[n.ID])
		}
	}
	return list
}
