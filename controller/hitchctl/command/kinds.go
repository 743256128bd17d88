package command

import "slices"

// shortNames are what kinds are called beside their singular and plural, as kubectl does it.
var shortNames = map[string]string{"instance": "vnf", "node": "no", "operation": "op", "volume": "vol"}

// otherNames are all names of a kind but the one that a command has already.
func otherNames(kind, used string) []string {
	names := []string{kind, kind + "s"}
	if short := shortNames[kind]; short != "" {
		names = append(names, short)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == used })
}
