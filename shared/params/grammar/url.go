package grammar

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ControllerURL accepts the base URL of a controller, https://host[:port] and nothing
// else, and returns it with its host in lower case and no slash at the end. The error does
// not repeat it.
func ControllerURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" ||
		strings.Trim(u.Path, "/") != "" || strings.ContainsAny(s, "?#") {
		return "", errors.New("expected https://host[:port] and nothing else")
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		host = ip.String()
		if ip.Is6() {
			host = "[" + host + "]"
		}
	} else if _, err := HostName(host); err != nil {
		return "", errors.New("expected a DNS name or an IP address as host")
	}
	if u.Port() == "" {
		return "https://" + host, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return "", errors.New("expected a port from 1 to 65535")
	}
	return "https://" + host + ":" + strconv.FormatUint(port, 10), nil
}
