package core

import (
	"slices"
	"strings"
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
