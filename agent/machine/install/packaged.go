package install

import (
	"bytes"
	"regexp"
)

// ownUpgrade is what only an agent needs that upgrades itself.
var ownUpgrade = regexp.MustCompile(`# If the agent has upgraded itself(?:.*\n)+?ExecStartPre=.*\n`)

// PackagedUnit is the unit in the package, where configuration is the agent's configuration
// file. It is the unit of an unpackaged agent with the package's binary, which the package
// manager upgrades, and with a condition: the machine starts nothing that is not configured.
func PackagedUnit(configuration string) []byte {
	unit := ownUpgrade.ReplaceAll(unitFile, nil)
	unit = bytes.ReplaceAll(unit, []byte(Binary), []byte(PackagedBinary))
	return bytes.Replace(unit, []byte("[Unit]\n"), []byte("[Unit]\nConditionPathExists="+configuration+"\n"), 1)
}
