package dockerconf

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// alwaysInsecure is the network that every engine trusts without TLS. Some engines (28, not
// 20.10) also trust ::1/128; this does not rely on it.
const alwaysInsecure = "127.0.0.0/8"

// Covered returns the entry of insecure-registries by which the engine already treats a
// server (host or host:port) as insecure: its exact name with its port, or a network with
// one of its addresses. The addresses are the one that its host is, or those that the name
// resolves to. IPv4's loopback needs no entry.
func Covered(entries []string, server string, addresses []netip.Addr) (by string, ok bool) {
	if i := slices.IndexFunc(entries, names(server)); i >= 0 {
		return entries[i], true
	}
	for _, entry := range slices.Concat(entries, []string{alwaysInsecure}) {
		_, network, err := net.ParseCIDR(withoutScheme(entry))
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if network.Contains(a.AsSlice()) {
				return entry, true
			}
		}
	}
	return "", false
}

// names returns a function that reports whether an entry names the server.
func names(server string) func(entry string) bool {
	return func(entry string) bool { return withoutScheme(entry) == server }
}

// withoutScheme is an entry as the engine keeps it: it warns about a scheme and cuts it off.
func withoutScheme(entry string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if len(entry) >= len(scheme) && strings.EqualFold(entry[:len(scheme)], scheme) {
			return entry[len(scheme):]
		}
	}
	return entry
}
