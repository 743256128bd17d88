package grammar

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Everybody is the client that stands for every host.
const Everybody = "*"

// Client is whom a directory is exported to: everybody, or exactly one member is set.
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

// ExportClient accepts a client that a directory is exported to: a network (CIDR, or an
// address with a netmask), an IP address, a host name, or Everybody. exports(5) knows more
// (options, other wildcards, netgroups); none of that is accepted.
func ExportClient(s string) (Client, error) {
	switch {
	case s == "":
		return Client{}, errEmpty
	case s == Everybody:
		return Client{Name: Everybody}, nil
	case strings.ContainsAny(s, "()"):
		return Client{}, problem(s, "has export options; give them as export_options")
	case strings.Contains(s, ","), strings.ContainsFunc(s, func(r rune) bool { return unwanted(r) != "" }):
		return Client{}, problem(s, "is more than one client; expected one CIDR, IP address or host name")
	case strings.HasPrefix(s, "["):
		return Client{}, problem(s, "begins with a bracket; give the CIDR, IP address or host name without brackets")
	case strings.ContainsAny(s, "*?["):
		return Client{}, problem(s, "is a wildcard; give the network as a CIDR such as 10.10.0.0/24, or * for every host")
	case strings.Contains(s, "@"):
		return Client{}, problem(s, "names a netgroup; give a CIDR, an IP address or a host name")
	case strings.Contains(s, "/"):
		network, err := exportNetwork(s)
		return Client{Network: network}, err
	}
	if _, err := exportOption(s); err == nil {
		return Client{}, problem(s, "is an export option, not a client; give it as export_options")
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

// exportNetwork accepts a CIDR, or an IPv4 address with a netmask.
func exportNetwork(s string) (netip.Prefix, error) {
	host, after, _ := strings.Cut(s, "/")
	addr, notAddress := netip.ParseAddr(host)
	mask, notMask := netip.ParseAddr(after)
	if notAddress != nil || notMask != nil || !addr.Is4() || !mask.Is4() {
		return CIDR(s)
	}
	length, bits := net.IPMask(mask.AsSlice()).Size()
	if bits == 0 {
		return netip.Prefix{}, problem(s, "has a netmask with holes; expected a CIDR such as 10.10.0.0/24")
	}
	return CIDR(host + "/" + strconv.Itoa(length))
}
