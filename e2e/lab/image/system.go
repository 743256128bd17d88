package image

import (
	"cmp"
	"fmt"
	"os"
)

// System is the operating system of a machine, whatever the host runs.
type System string

// The systems. Both come from the same archive.
const (
	Debian12 System = "debian12"
	Debian13 System = "debian13"
)

// EnvSystem names the system of machines for which nothing else does; unset means Debian12.
const EnvSystem = "NODEHITCH_SYSTEM"

// release is the name of the system's release in the archive.
var release = map[System]string{Debian12: "bookworm", Debian13: "trixie"}

// OrDefault is the system itself, or if it is empty the one that EnvSystem names. An error
// says that there is no such system.
func (s System) OrDefault() (System, error) {
	s = cmp.Or(s, System(os.Getenv(EnvSystem)), Debian12)
	if release[s] == "" {
		return "", fmt.Errorf("there are no machines with the system %q: want %s or %s", s, Debian12, Debian13)
	}
	return s, nil
}

// Named is the name in the cache of what belongs to the system. Debian 12's have none of
// their own.
func (s System) Named(name string) string {
	if s == Debian12 {
		return name
	}
	return name + "-" + string(s)
}

// engine is the packages of Docker. Debian 13 has its command line apart, and only
// recommends it.
func (s System) engine() []string {
	if s == Debian12 {
		return []string{"docker.io"}
	}
	return []string{"docker.io", "docker-cli"}
}
