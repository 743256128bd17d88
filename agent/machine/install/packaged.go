package install

import "bytes"

// packagedBinary is where the package has the agent.
const packagedBinary = "/usr/bin/nodehitch-agent"

// PackagedUnit is the unit in the package, where configuration is the agent's configuration
// file. It is the unit of an unpackaged agent with the package's binary, and with a condition:
// the machine starts nothing that is not configured.
func PackagedUnit(configuration string) []byte {
	unit := bytes.ReplaceAll(unitFile, []byte(Binary), []byte(packagedBinary))
	return bytes.Replace(unit, []byte("[Unit]\n"), []byte("[Unit]\nConditionPathExists="+configuration+"\n"), 1)
}
