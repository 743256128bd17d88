package core

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/config"
)

// localNames are by which the machine itself reaches the controller.
var localNames = []string{"localhost", "127.0.0.1", "::1"}

// CertificateNames are the names of the serving certificate, each once.
func CertificateNames(names []string) []string {
	var all []string
	for _, name := range slices.Concat(names, localNames) {
		if name = strings.ToLower(name); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// ownNames are the names by which nodes may look for the controller.
func ownNames(c config.Config) []string {
	names := slices.Clone(c.Names)
	for _, text := range slices.Concat(c.AdvertiseURLs, c.ControllerURLs) {
		if u, err := url.Parse(text); err == nil { // the configuration is validated
			names = append(names, u.Hostname())
		}
	}
	return names
}

// notInCertificate are the URLs for agents whose host the serving certificate does not
// name: no agent uses them. Controllers that share a store have a certificate each, and
// these lists have the URLs of all.
func notInCertificate(c config.Config) []string {
	if c.Store.Etcd.Configured() {
		return nil
	}
	var named []string
	for _, name := range CertificateNames(c.Names) {
		named = append(named, canonical(name))
	}
	var urls []string
	for _, text := range slices.Concat(c.AdvertiseURLs, c.ControllerURLs) {
		if u, err := url.Parse(text); err == nil && !slices.Contains(named, canonical(u.Hostname())) && !slices.Contains(urls, text) {
			urls = append(urls, text)
		}
	}
	return urls
}

// canonical is the one form of a name or an address.
func canonical(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.String()
	}
	return strings.ToLower(host)
}
