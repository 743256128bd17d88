package plan

import (
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// proxy is how a node reaches package sources. No proxy is an empty section, not a
// missing one: a proxy that leaves the parameters has to leave the nodes.
func proxy(p *params.Params) *api.ProxySection {
	var given *params.Proxy
	switch {
	case p.Cluster != nil:
		given = p.Cluster.Proxy
	case p.Registry != nil:
		given = p.Registry.Proxy
	}
	if given == nil {
		return &api.ProxySection{}
	}
	return &api.ProxySection{HTTP: given.HTTP.Reveal(), HTTPS: given.HTTPS.Reveal(), NoProxy: noProxy(given)}
}

// noProxy is no_proxy as given, with the network of the nodes (k8s_node_cidr),
// which is reached directly too.
func noProxy(p *params.Proxy) string {
	var parts []string
	if p.NoProxy != "" {
		parts = append(parts, p.NoProxy)
	}
	if p.NodeCIDR.IsValid() {
		parts = append(parts, p.NodeCIDR.String())
	}
	return strings.Join(parts, ",")
}
