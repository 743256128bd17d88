package params

import (
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// CheckHostNames refuses a line for /etc/hosts that gives a node another address for one of
// these names: those of the controller, which the node would then no longer reach. at is the
// place of additionalParams.
func CheckHostNames(p *Params, reserved []string, at fault.At) fault.List {
	if p == nil || p.Cluster == nil {
		return nil
	}
	r := &reader{}
	for i, c := range p.Cluster.Registries {
		if c.HostsEntry == nil {
			continue
		}
		for _, name := range c.HostsEntry.Names {
			if slices.ContainsFunc(reserved, func(own string) bool { return strings.EqualFold(name, own) }) {
				r.fault(at.Key(keyCluster).Key(keyRegistries).Index(i).Key(keyHosts),
					"names %s, which is a name of the controller: nodes would look for the controller at %s; leave the name out", grammar.Show(name), c.HostsEntry.Address)
			}
		}
	}
	return r.report(nil, at).Faults
}
