package ratelimit

import "net/netip"

// Network is what one customer of a provider can take addresses from: an IPv4 address, an IPv6 /64.
// It is the zero Prefix for the zero Addr.
func Network(remote netip.Addr) netip.Prefix {
	remote = remote.Unmap().WithZone("")
	bits := remote.BitLen()
	if remote.Is6() {
		bits = 64
	}
	prefix, _ := remote.Prefix(bits) // fails for the zero Addr
	return prefix
}
