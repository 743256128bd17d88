package core

import (
	"net/url"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/config"
)

// localNames are by which the machine itself reaches the controller.
var localNames = []string{"localhost", "127.0.0.1", "::1"}

// certificateNames are the names of the serving certificate, each once.
func certificateNames(names []string) []string {
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
