package pki

import (
	"errors"
	"fmt"
	"net"
	"regexp"
)

// A DNS name in its ASCII form (RFC 1123, 2.1), without a wildcard: the server
// certificate is for this controller and for nothing beside it.
var dnsName = regexp.MustCompile(`^(?i)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

func checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("the server certificate has no name: configure the DNS names or IP addresses by which agents reach this controller")
	}
	for _, name := range names {
		if net.ParseIP(name) == nil && (len(name) > 253 || !dnsName.MatchString(name)) {
			return fmt.Errorf("the server name %q is neither an IP address nor a DNS name (letters, digits, - and .)", name)
		}
	}
	return nil
}
