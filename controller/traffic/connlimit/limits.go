package connlimit

import (
	"net"
	"net/netip"
	"runtime"
	"time"
)

// Limits of a Limiter.
type Limits struct {
	// Connections is how many may be open at all.
	Connections int
	// Unauthenticated is how many of them may be unauthenticated; PerSource, of one
	// network.
	Unauthenticated, PerSource int
	// Handshake is how long a handshake may take.
	Handshake time.Duration
	// Longest is for how long an unauthenticated connection keeps its place against a
	// new one because the controller is working on its request.
	Longest time.Duration
	// Turns is how many handshakes are computed at a time.
	Turns int
}

// LimitsFor a process that may have so many file descriptors. Some are kept back
// for the unix socket, the store, and files that are served.
func LimitsFor(descriptors int) Limits {
	connections := max(descriptors-max(256, descriptors/8), descriptors/2, 1)
	unauthenticated := max(min(2048, connections/4), 1)
	return Limits{
		Connections: connections, Unauthenticated: unauthenticated, PerSource: max(unauthenticated/4, 1),
		Handshake: 10 * time.Second, Longest: time.Minute,
		// Half of the machine: requests of authenticated callers need the other half.
		Turns: max(runtime.GOMAXPROCS(0)/2, 1),
	}
}

// network is what one customer of a provider can take addresses from: an IPv4
// address, an IPv6 /64.
func network(remote net.Addr) netip.Prefix {
	from, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Prefix{}
	}
	addr := from.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // bits fit
	return prefix
}
