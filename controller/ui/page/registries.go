package page

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

type registriesPage struct {
	Registries []registryShown
	Clusters   []clusterShown
}

// registryShown is a private registry that nodehitch runs.
type registryShown struct {
	Instance  name
	Node      name
	Addresses string
	Badge     badge
	Text      string
	Image     string
	Data      string
}

// clusterShown is which registries the nodes of a cluster are connected to.
type clusterShown struct {
	Instance         name
	Connections      []connectionShown
	Connected, Nodes int
	Percent          string
	Waiting          []targetShown
	Rest             int
	NodesPath        string
}

// connectionShown is a registry as the nodes reach it.
type connectionShown struct {
	Server string
	Scheme badge
	Login  string
	CA     string
	Hosts  string
}

func (v Registries) content(f Frame) content {
	nodes := byInstance(v.Nodes)
	var p registriesPage
	for _, i := range v.Instances {
		given := paramsOf(i)
		if given == nil {
			continue
		}
		if given.Registry != nil {
			p.Registries = append(p.Registries, registriesOf(i, given.Registry, nodes[i.ID])...)
		}
		if given.Cluster != nil && len(given.Cluster.Registries) > 0 {
			p.Clusters = append(p.Clusters, connections(i, given.Cluster.Registries, nodes[i.ID]))
		}
	}
	return content{name: "registries", title: "Registries", lead: "Private registries, and the clusters whose nodes pull from them.", section: PathRegistries,
		changed: []string{ChangedInstances, ChangedNodes}, data: p}
}

// paramsOf are the parameters of an instance as far as they can be read, nil if they cannot.
func paramsOf(i api.Instance) *params.Params {
	given, report := params.Parse(i.AdditionalParams, "")
	if given == nil {
		given = report.Partial
	}
	return given
}

// registriesOf is each server that has the role, or the instance alone if none has.
func registriesOf(i api.Instance, given *params.Registry, nodes []api.Node) (list []registryShown) {
	shown := registryShown{Instance: instanceName(i.Name, i.ID), Image: given.ImagePath, Data: given.DataDirectory(), Badge: badge{"wait", "No server"}, Text: describe.NoNodes}
	if shown.Image == "" {
		shown.Image = "pulled from the public registry"
	}
	for _, n := range nodes {
		if n.Role != api.RoleRegistry {
			continue
		}
		of := shown
		of.Node = nodeName(n.Name, n.ID)
		var addresses []string
		for _, a := range n.Addresses {
			addresses = append(addresses, net.JoinHostPort(a, strconv.Itoa(int(given.Port))))
		}
		of.Addresses = listed(addresses)
		of.Badge, of.Text = conditionBadge(n, api.ConditionRegistryRunning)
		list = append(list, of)
	}
	if len(list) == 0 {
		list = append(list, shown)
	}
	return list
}

// conditionBadge is a condition of a node, or why it is not known.
func conditionBadge(n api.Node, conditionType string) (badge, string) {
	if n.State == api.NodeLost || n.State == api.NodeRevoked {
		return toned(describe.OfNode(n.State), "not known: "+strings.ToLower(string(n.State))), describe.Why(n)
	}
	c := n.Status.Condition(conditionType)
	if c == nil {
		return badge{"wait", api.ReasonNotReported}, describe.Why(n)
	}
	return toned(describe.OfCondition(n, *c), asReported(c.Reason, n.Unconfirmed)), c.Message
}

func connections(i api.Instance, given []params.RegistryConnection, nodes []api.Node) clusterShown {
	c := clusterShown{Instance: instanceName(i.Name, i.ID), NodesPath: nodesOf(i.ID)}
	for _, r := range given {
		shown := connectionShown{Server: r.Server, Scheme: badge{"good", "HTTPS"}, Login: "none", CA: "the system's"}
		if r.Type == params.HTTP {
			shown.Scheme, shown.CA = badge{"wait", "HTTP, not encrypted"}, describe.None
		}
		if r.Username != "" {
			shown.Login = "as " + r.Username
		}
		if r.CertificatePath != "" {
			shown.CA = r.CertificatePath
		}
		if r.HostsEntry != nil && r.HostsEntry.Address != (netip.Addr{}) {
			shown.Hosts = strings.TrimSpace(r.HostsEntry.String())
		}
		c.Connections = append(c.Connections, shown)
	}
	var waiting []targetShown
	for _, n := range nodes {
		if n.Role != api.RoleMaster && n.Role != api.RoleWorker || n.State == api.NodeRevoked {
			continue
		}
		c.Nodes++
		condition := n.Status.Condition(api.ConditionRegistriesConnected)
		if inContact(n) && condition != nil && condition.Status == api.ConditionTrue {
			c.Connected++
			continue
		}
		b, text := conditionBadge(n, api.ConditionRegistriesConnected)
		doc := api.Reasons[b.Text]
		waiting = append(waiting, targetShown{Node: nodeName(n.Name, n.ID), Badge: b, Message: text, Meaning: doc.Meaning, Action: doc.Action})
	}
	c.Percent = percent(100 * float64(c.Connected) / float64(max(1, c.Nodes)))
	c.Waiting, c.Rest = few(waiting, fewTargets)
	return c
}
