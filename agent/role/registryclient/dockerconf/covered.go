package dockerconf

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// always is the network that every engine takes for insecure by itself. That ::1/128
// is another one of some (28, not 20.10) is not relied on.
const always = "127.0.0.0/8"

// Covered says by which of the entries of insecure-registries the engine already
// takes a server (host or host:port) for an insecure one: by its name, letter by letter
// and with its port, or by a network that holds one of the addresses. These are the
// one that its host is, or those that it resolves to. IPv4's loopback needs no entry.
func Covered(entries []string, server string, addresses []netip.Addr) (by string, ok bool) {
	if i := slices.IndexFunc(entries, names(server)); i >= 0 {
		return entries[i], true
	}
	for _, entry := range slices.Concat(entries, []string{always}) {
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

// names is of the entries that name the server.
func names(server string) func(entry string) bool {
	return func(entry string) bool { return withoutScheme(entry) == server }
}

// withoutScheme is an entry as the engine keeps it: it warns of a scheme, and cuts it off.
func withoutScheme(entry string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if len(entry) >= len(scheme) && strings.EqualFold(entry[:len(scheme)], scheme) {
			return entry[len(scheme):]
		}
	}
	return entry
}
