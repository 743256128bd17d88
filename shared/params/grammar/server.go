package grammar

import (
	"net/netip"
	"strings"
)

// Server is where a container registry listens.
type Server struct {
	// Host is an IPv4 address, an IPv6 address without brackets, or a host name.
	Host string
	// Port is 0 if none is given: the scheme's own.
	Port uint16
}

// RegistryServer accepts the server part of an image name: host or host:port,
// an IPv6 address in brackets. Scheme, user and path do not belong to it.
func RegistryServer(s string) (Server, error) {
	switch {
	case s == "":
		return Server{}, errEmpty
	case strings.Contains(s, "://"):
		return Server{}, problem(s, "begins with a scheme; connection_type says it, write host or host:port only")
	case strings.Contains(s, "@"):
		return Server{}, problem(s, "holds a user; write host or host:port only, and give username and password as attributes")
	case strings.Contains(s, "/"):
		return Server{}, problem(s, "holds a path; write host or host:port only")
	case strings.HasPrefix(s, "["):
		return bracketed(s)
	case strings.Count(s, ":") > 1:
		return Server{}, problem(s, "looks like an IPv6 address; put it in brackets, such as [fd00::10]:5000")
	}
	host, port, hasPort := strings.Cut(s, ":")
	if err := plainHost(s, host); err != nil {
		return Server{}, err
	}
	return withPort(host, port, hasPort)
}

func plainHost(whole, host string) error {
	if host == "" {
		return problem(whole, "has no host before the port")
	}
	if _, ok, err := address(host); ok {
		return err
	}
	_, err := HostName(host)
	return err
}

func bracketed(s string) (Server, error) {
	host, rest, closed := strings.Cut(s[1:], "]")
	addr, err := netip.ParseAddr(host)
	// Image names know no dots and no zone in brackets (the reference grammar of distribution).
	if !closed || err != nil || !addr.Is6() || strings.ContainsAny(host, ".%") || addr.IsUnspecified() || addr.IsMulticast() {
		return Server{}, problem(s, "is not an IPv6 address of a host in brackets, such as [fd00::10]:5000")
	}
	port, hasPort := strings.CutPrefix(rest, ":")
	if rest != "" && !hasPort {
		return Server{}, problem(s, "has text after the bracket that is no :port")
	}
	return withPort(host, port, hasPort)
}

func withPort(host, port string, hasPort bool) (Server, error) {
	if !hasPort {
		return Server{Host: host}, nil
	}
	if port == "" {
		return Server{}, problem(host+":", "ends in a colon without a port")
	}
	n, err := Port(port)
	return Server{Host: host, Port: n}, err
}
