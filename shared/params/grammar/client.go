package grammar

import (
	"net/netip"
	"strings"
)

// Client is whom a directory is exported to. Exactly one member is set.
type Client struct {
	Network netip.Prefix
	Address netip.Addr
	Name    string
}

// String is the client as in /etc/exports. A network is masked.
func (c Client) String() string {
	switch {
	case c.Network.IsValid():
		return c.Network.Masked().String()
	case c.Address.IsValid():
		return c.Address.String()
	}
	return c.Name
}

// ExportClient accepts the network address that a directory is exported to: a
// CIDR, an IP address, or a host name. exports(5) knows more (options, wildcards,
// netgroups); none of that is a network address, and none is accepted.
func ExportClient(s string) (Client, error) {
	switch {
	case s == "":
		return Client{}, errEmpty
	case strings.ContainsAny(s, "(),"), strings.ContainsFunc(s, func(r rune) bool { return unwanted(r) != "" }):
		return Client{}, problem(s, "is more than a network address; give one CIDR, IP address or host name"+
			" for each entry (export options are not taken: they are the same for all)")
	case strings.HasPrefix(s, "["):
		return Client{}, problem(s, "begins with a bracket; give one CIDR, IP address or host name for each entry, without brackets")
	case strings.ContainsAny(s, "*?["):
		return Client{}, problem(s, "is a wildcard; give the network as a CIDR such as 10.10.0.0/24, or 0.0.0.0/0 for every IPv4 address")
	case strings.Contains(s, "@"):
		return Client{}, problem(s, "names a netgroup; give a CIDR, an IP address or a host name")
	case strings.Contains(s, "/"):
		network, err := CIDR(s)
		return Client{Network: network}, err
	}
	if addr, ok, err := address(s); ok {
		if err != nil && addr.IsUnspecified() {
			return Client{}, problem(s, "is the address of no host; for every host write %s/0", s)
		}
		return Client{Address: addr}, err
	}
	name, err := HostName(s)
	return Client{Name: name}, err
}
