package registryclient

import (
	"context"
	"net/netip"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/hostsfile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// hosts plans our block of /etc/hosts, which has markers around it.
func (p *plan) hosts() {
	entries := p.hostsEntries()
	content, err := p.read(hostsPath)
	if err != nil {
		p.problem(err)
		return
	}
	for _, conflict := range hostsfile.Conflicts(content, entries) {
		p.problem(converge.Wait(api.ReasonEngineConfigInvalid, "%s: %s, and the first of two lines counts; remove that line", hostsPath, conflict))
	}
	e := edit{path: hostsPath, mode: publicMode, change: func(content []byte) ([]byte, error) { return hostsfile.Set(content, entries) }}
	pending, err := p.pending(e)
	if err != nil {
		p.problem(err)
		return
	}
	if pending {
		summary := "write " + plural(len(entries), "line", "lines") + " for registries in " + hostsPath
		if len(entries) == 0 {
			summary = "remove the lines for registries from " + hostsPath
		}
		p.do("hosts", summary, func(context.Context) error { return p.apply(e, nil, nil) })
	}
}

func (p *plan) hostsEntries() []hostsfile.Entry {
	var entries []hostsfile.Entry
	for _, c := range p.connections {
		h := c.HostsEntry
		if h == nil {
			continue
		}
		address, err := netip.ParseAddr(h.Address)
		if err != nil {
			p.problem(converge.Fail(api.ReasonInvalidDocument, "%s: its hosts entry has no IP address: %v", c.Server, err))
			continue
		}
		same := func(e hostsfile.Entry) bool { return e.Address == address && slices.Equal(e.Names, h.Names) }
		if !slices.ContainsFunc(entries, same) { // registries on one machine share a line
			entries = append(entries, hostsfile.Entry{Address: address, Names: h.Names})
		}
	}
	return entries
}
