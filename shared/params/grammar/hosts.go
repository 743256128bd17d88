package grammar

import (
	"net/netip"
	"strings"
)

// HostsLine accepts a line of hosts(5): an IP address and one or more host names,
// separated by blanks or tabs, without a comment. Names of the machine itself
// (localhost and its kin) are refused: an entry for them would break the node.
func HostsLine(s string) (netip.Addr, []string, error) {
	if s == "" {
		return netip.Addr{}, nil, errEmpty
	}
	for _, r := range s {
		if what := unwanted(r); what != "" && r != ' ' && r != '\t' {
			return netip.Addr{}, nil, problem(s, "is not one line: it holds %U", r)
		}
		if r == '#' {
			return netip.Addr{}, nil, problem(s, "holds a comment; give address and names only")
		}
	}
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return netip.Addr{}, nil, problem(s, `is not "<IP address> <host name>"`)
	}
	addr, ok, err := address(fields[0])
	if err != nil {
		return netip.Addr{}, nil, err
	}
	if !ok {
		return netip.Addr{}, nil, problem(s, "does not begin with an IP address")
	}
	for _, name := range fields[1:] {
		if err := hostsName(name); err != nil {
			return netip.Addr{}, nil, err
		}
	}
	return addr, fields[1:], nil
}

func hostsName(name string) error {
	if _, err := HostName(name); err != nil {
		return err
	}
	switch first, _, _ := strings.Cut(strings.ToLower(name), "."); first {
	case "localhost", "ip6-localhost", "ip6-loopback", "ip6-allnodes", "ip6-allrouters":
		return problem(name, "is a name of the node itself; it must not be given another address")
	}
	return nil
}
