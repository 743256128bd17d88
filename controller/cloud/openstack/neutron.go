package openstack

import (
	"context"
	"net/netip"
	"net/url"
)

// owned asks for what the project owns, with these fields: Neutron shows an
// administrator everybody's.
func (c *Cloud) owned(ctx context.Context, fields ...string) (url.Values, error) {
	project, err := c.Project(ctx)
	return url.Values{"project_id": {project}, "fields": fields}, err
}

// Ports are those of the project, in Neutron's order. One call for each page.
func (c *Cloud) Ports(ctx context.Context) ([]Port, error) {
	query, err := c.owned(ctx, "id", "name", "device_id", "fixed_ips")
	if err != nil {
		return nil, err
	}
	found, err := list[struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		DeviceID string `json:"device_id"`
		FixedIPs []struct {
			Address string `json:"ip_address"`
		} `json:"fixed_ips"`
	}](ctx, c, request{service: network, path: "/ports", query: query}, "ports")
	out := make([]Port, len(found))
	for i, p := range found {
		out[i] = Port{ID: p.ID, Name: p.Name, DeviceID: p.DeviceID}
		for _, f := range p.FixedIPs {
			out[i].Addresses = appendAddress(out[i].Addresses, f.Address)
		}
	}
	return out, err
}

// FloatingIPs are those of the project. One call for each page.
func (c *Cloud) FloatingIPs(ctx context.Context) ([]FloatingIP, error) {
	query, err := c.owned(ctx, "id", "floating_ip_address", "fixed_ip_address", "port_id")
	if err != nil {
		return nil, err
	}
	found, err := list[struct {
		ID      string `json:"id"`
		Address string `json:"floating_ip_address"`
		Fixed   string `json:"fixed_ip_address"`
		PortID  string `json:"port_id"`
	}](ctx, c, request{service: network, path: "/floatingips", query: query}, "floatingips")
	var out []FloatingIP
	for _, f := range found {
		address, err := netip.ParseAddr(f.Address)
		if err != nil {
			continue
		}
		fixed, _ := netip.ParseAddr(f.Fixed) // null while it is not in use
		out = append(out, FloatingIP{ID: f.ID, Address: address, PortID: f.PortID, Fixed: fixed})
	}
	return out, err
}
