package grammar

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// CIDR accepts a network such as 10.10.0.0/24 or fd00::/64. Bits of the host
// part may be set; Masked of the result takes them away, and the caller says so.
func CIDR(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, problem(s, "is not a network: expected a CIDR such as 10.10.0.0/24")
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, problem(s, "is an IPv4 network written as IPv6; write it as IPv4")
	}
	return p, nil
}

var label = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// HostName accepts a host name of RFC 1123 section 2.1: labels of letters,
// digits and inner hyphens, at most 253 bytes. The last label is not a number, so
// that a mistyped IPv4 address is not taken for a name (RFC 3696 section 2).
func HostName(s string) (string, error) {
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if !label.MatchString(l) {
			return "", problem(s, "is neither an IP address nor a host name (labels of letters, digits and inner hyphens, separated by dots)")
		}
	}
	if len(s) > 253 {
		return "", problem(s, "has %d bytes; a host name may have 253", len(s))
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "", problem(s, "is not an IP address (four numbers from 0 to 255), and a host name does not end in a number")
	}
	return s, nil
}

// address accepts an IP address of a host that can be talked to. ok is false
// where s does not even look like one.
func address(s string) (addr netip.Addr, ok bool, err error) {
	addr, _ = netip.ParseAddr(s) // the zero Addr where it is none
	switch {
	case !addr.IsValid() && strings.Contains(s, ":"):
		return addr, true, problem(s, "is not an IP address")
	case !addr.IsValid():
		return addr, false, nil
	case addr.Zone() != "":
		return addr, true, problem(s, "has a zone (%%%s), which means something on one machine only; leave it out", addr.Zone())
	case addr.Is4In6():
		return addr, true, problem(s, "is an IPv4 address written as IPv6; write %s", addr.Unmap())
	case addr.IsUnspecified():
		return addr, true, problem(s, "is the address of no host")
	case addr.IsMulticast():
		return addr, true, problem(s, "is a multicast address, not that of a host")
	}
	return addr, true, nil
}

// Port accepts a TCP port as text: 1 to 65535, decimal, no sign, no leading zero.
func Port(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, problem(s, "is not a TCP port: expected a whole number from 1 to 65535")
	}
	return uint16(n), nil
}
