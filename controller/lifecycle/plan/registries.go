package plan

import (
	"cmp"
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// addRegistries gives a master or worker the private registries of its cluster.
// None is an empty section, not a missing one: a registry that leaves the
// parameters has to leave the node.
func (n *Node) addRegistries(in Input) {
	list := []api.RegistryConnection{}
	for _, c := range in.Params.Cluster.Registries {
		list = append(list, n.connection(in, c))
	}
	if n.withholds(api.SectionRegistries) {
		return
	}
	slices.SortFunc(list, func(a, b api.RegistryConnection) int { return cmp.Compare(a.Server, b.Server) })
	if n.takes(in, api.SectionRegistries, list) {
		n.Config.Registries = list
	}
}

// connection reveals the password: documents are sealed in the store, and the
// node's login is made of it.
func (n *Node) connection(in Input, c params.RegistryConnection) api.RegistryConnection {
	to := api.RegistryConnection{
		Server: c.Server, Scheme: api.RegistryConnectionScheme(c.Type.Scheme()),
		Username: c.Username, Password: c.Password.Reveal(),
	}
	if c.CertificatePath != "" && c.Type == params.HTTPS { // with HTTP it has no effect
		to.CACertificate = n.file(in, api.SectionRegistries, c.CertificatePath)
	}
	if h := c.HostsEntry; h != nil {
		to.HostsEntry = &api.HostsEntry{Address: h.Address.String(), Names: slices.Clone(h.Names)}
	}
	return to
}
